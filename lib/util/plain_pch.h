// SPDX-License-Identifier: Apache-2.0
// The precompiled header of every module without LibTorch.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>
