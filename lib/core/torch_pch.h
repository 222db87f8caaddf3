// SPDX-License-Identifier: Apache-2.0
// The precompiled header of every module that uses LibTorch.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/torch.h"
