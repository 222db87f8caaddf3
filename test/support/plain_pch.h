// SPDX-License-Identifier: Apache-2.0
// The precompiled header of tests without LibTorch.
#pragma once

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
