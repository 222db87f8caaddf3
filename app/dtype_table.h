// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/forward_precision.h"
#include "gan/player.h"
#include "gan/precision_options.h"

namespace gantrain {

// Makes a row for each pair of a block and a type that it computed in: {"block": "D.b16",
// "parameters": "float", "computes": "bfloat16", "why": "autocast"}. "parameters" is "-" where the
// block has none.
Json dtype_table(const std::vector<Player*>& players,
                 const std::vector<Computed>& computed,
                 PrecisionMode mode);

// Prints the table to standard output.
void print_dtypes(const Json& table);

}  // namespace gantrain
