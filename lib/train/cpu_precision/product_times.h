// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "core/forward_precision.h"

namespace gantrain {

// What the calls of one product in an iteration cost on this CPU, forward and backward, with the
// conversions of operands, results and gradients. In seconds.
struct ProductTimes {
  Product product;
  double float32 = 0;
  double bfloat16 = 0;
};

// Whether this processor multiplies bfloat16 by instructions of its own (AVX512-BF16 or AMX).
bool multiplies_bfloat16();

// Chooses bfloat16 for each product that it makes faster by a tenth at least. Where all of them
// together would save less than a tenth of the products' time, nothing is lowered: in a whole step,
// where caches are shared, that was measured to save nothing.
ProductChoice choose_types(const std::vector<ProductTimes>& measured);

// The sum of the times in float32, and of the times as chosen.
struct ChosenSums {
  double float32 = 0;
  double chosen = 0;
};
ChosenSums sum_times(const std::vector<ProductTimes>& measured, const ProductChoice& choice);

// Times a product once, on tensors of its own; `uses` says how often and what for.
using TimeOnce = std::function<ProductTimes(const Product& product, const ProductUses& uses)>;
ProductTimes time_once(const Product& product, const ProductUses& uses);

// Times the recorded products, those with the most arithmetic first, and keeps the least of several
// times. It stops after `budget` seconds, or twice as many while some were not timed once; what was
// not timed until then is not in the result.
std::vector<ProductTimes> time_products(const ProductRecord& record,
                                        double budget,
                                        const TimeOnce& once = time_once);

// Returns the multiplications and additions of one forward call.
double operations(const Product& product, const ProductUses& uses);

}  // namespace gantrain
