// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "cuda/kernel_table.h"
#include "cuda/launching.h"
#include "cuda_kernels/planes.h"

namespace gantrain {

using at::Tensor;

namespace {

cuda_kernels::WeightRows rows_of(const Tensor& w) {
  return {kernel_type(w), w.size(0) * w.size(1), w.size(2) * w.size(3)};
}

}  // namespace

Tensor cuda_plane_products(const Tensor& a_in, const Tensor& b_in) {
  const Tensor a = a_in.contiguous(), b = b_in.contiguous();
  if (a.numel() == 0) return at::zeros({a.size(0), a.size(1)}, a.options());
  Tensor sums = at::empty({a.size(0), a.size(1)}, a.options());
  cuda_kernels::row_products(rows_of(a),
                             {a.const_data_ptr(), b.const_data_ptr(), sums.mutable_data_ptr()},
                             current_stream(a));
  check_launch();
  return sums;
}

Tensor cuda_scaled_planes(const Tensor& w_in, const Tensor& by_in, double factor) {
  const Tensor w = w_in.contiguous(), by = by_in.contiguous();
  Tensor out = at::empty(w.sizes(), w.options());
  if (w.numel() == 0) return out;
  cuda_kernels::scaled_rows(rows_of(w),
                            factor,
                            {w.const_data_ptr(), by.const_data_ptr(), out.mutable_data_ptr()},
                            current_stream(w));
  check_launch();
  return out;
}

}  // namespace gantrain
