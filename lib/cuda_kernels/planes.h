// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_kernels/launch.h"

namespace gantrain::cuda_kernels {

// Rows of numbers side by side, which are the planes of a convolution's weights: `length` is 9 for
// 3 x 3 pixels.
struct WeightRows {
  Type type;  // not kFloat64
  int64_t rows, length;
};

// sums[row] = the sum of a * b over the row.
struct RowProductsArrays {
  const void *a, *b;
  void* sums;
};
void row_products(const WeightRows& how, const RowProductsArrays& arrays, Stream stream);

// out = factor * w * by[row].
struct ScaledRowsArrays {
  const void *w, *by;
  void* out;
};
void scaled_rows(const WeightRows& how,
                 double factor,
                 const ScaledRowsArrays& arrays,
                 Stream stream);

// Whether these calls move 16 bytes at a time.
bool packed(const WeightRows& how, const RowProductsArrays& arrays);
bool packed(const WeightRows& how, const ScaledRowsArrays& arrays);

}  // namespace gantrain::cuda_kernels
