// SPDX-License-Identifier: Apache-2.0
// The precompiled header of tests without LibTorch.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "support/catch.h"
