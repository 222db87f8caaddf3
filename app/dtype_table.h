// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/forward_precision.h"
#include "gan/player.h"
#include "gan/precision_options.h"
#include "train/product_times.h"

namespace gantrain {

// Makes a row for each pair of a block and a type that it computed in: {"block": "D.b16",
// "parameters": "float", "computes": "bfloat16", "why": "autocast"}. "parameters" is "-" where the
// block has none.
Json dtype_table(const std::vector<Player*>& players,
                 const std::vector<Computed>& computed,
                 PrecisionMode mode);

// Prints the table to standard output.
void print_dtypes(const Json& table);

// Makes a row for each convolution or matrix product that was timed: {"product": "conv2d 64x8x8
// 64x64x3x3 p1x1", "float32": seconds of an iteration, "bfloat16": seconds, "computes":
// "bfloat16"}. `choice` is precision.cpu_choice.
Json product_table(const std::vector<ProductTimes>& measured, const std::string& choice);

// Prints "amp" and "products" of the dry run's report to standard output, where there are any.
void print_products(const Json& report);

}  // namespace gantrain
