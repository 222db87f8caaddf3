// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/resample.h"

#include <torch/torch.h>

#include "ops/precision.h"
#include "recipes/stylegan2/augment_draws.h"
#include "recipes/stylegan2/wavelets.h"

namespace gantrain::stylegan2 {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

// Linear in x, so the derivative is the same with the matrices transposed.
struct OnBothAxes : torch::autograd::Function<OnBothAxes> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& x,
                        const Tensor& rows,
                        const Tensor& columns) {
    context->save_for_backward({rows, columns});
    return at::matmul(at::matmul(rows.transpose(-2, -1), x), columns);
  }

  static variable_list backward(AutogradContext* context, const variable_list& dy) {
    const WithoutAutocast exact;
    const variable_list saved = context->get_saved_variables();
    return {apply(dy[0], saved[0].transpose(-2, -1), saved[1].transpose(-2, -1)), {}, {}};
  }
};

Tensor low_pass(const Tensor& like) {
  const std::array<double, 12> taps = sym6_lowpass();
  return sent_to(torch::tensor(at::ArrayRef<double>(taps), at::kDouble), like);
}

// [length, 2 (length + before + after)]
Tensor doubling(int64_t length, int64_t before, int64_t after, const Tensor& filter) {
  const Tensor rows =
      at::reflection_pad2d(unit_matrix(length, filter.options()), {before, after, 0, 0});
  const UpFirDn how{.up = {2, 1}, .padding = {6, 5, 0, 0}, .gain = 2};
  return upfirdn2d(rows, filter.unsqueeze(0), how)[0][0];
}

constexpr int64_t kHalvingPad = 5 - 2 * kCropped;  // 5 keeps the size

// [length, length / 2 - 2 kCropped]
Tensor halving(int64_t length, const Tensor& filter) {
  const UpFirDn how{
      .down = {2, 1}, .padding = {kHalvingPad, kHalvingPad, 0, 0}, .flip_filter = true};
  return upfirdn2d(unit_matrix(length, filter.options()), filter.unsqueeze(0), how)[0][0];
}

}  // namespace

Tensor on_both_axes(const Tensor& x, const Tensor& rows, const Tensor& columns) {
  const WithoutAutocast exact;
  return OnBothAxes::apply(x, rows, columns);
}

Tensor unit_matrix(int64_t length, const at::TensorOptions& options) {
  return at::eye(length, options).view({1, 1, length, length});
}

Route usual_route(const Tensor& x) { return x.is_cpu() ? Route::kMatrices : Route::kFilter; }

Tensor doubled(const Tensor& x, const Padding2d& m, Route route) {
  const Tensor filter = low_pass(x);
  if (route == Route::kMatrices) {
    return on_both_axes(
        x, doubling(x.size(2), m.y0, m.y1, filter), doubling(x.size(3), m.x0, m.x1, filter));
  }
  const UpFirDn how{.up = {2, 2}, .padding = {6, 5, 6, 5}, .gain = 4};
  return upfirdn2d(at::reflection_pad2d(x, {m.x0, m.x1, m.y0, m.y1}), filter, how);
}

Tensor halved(const Tensor& x, Route route) {
  const Tensor filter = low_pass(x);
  if (route == Route::kMatrices) {
    return on_both_axes(x, halving(x.size(2), filter), halving(x.size(3), filter));
  }
  const UpFirDn how{.down = {2, 2},
                    .padding = {kHalvingPad, kHalvingPad, kHalvingPad, kHalvingPad},
                    .flip_filter = true};
  return upfirdn2d(x, filter, how);
}

}  // namespace gantrain::stylegan2
