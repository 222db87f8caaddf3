// SPDX-License-Identifier: Apache-2.0
#include "augment/sym6_resample.h"

#include "augment/wavelet_tensors.h"
#include "core/torch.h"
#include "ops/precision.h"

namespace gantrain {

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

// [length, 2 (length + before + after)]
Tensor doubling(int64_t length, int64_t before, int64_t after, const Tensor& filter) {
  const Tensor rows =
      at::reflection_pad2d(unit_matrix(length, filter.options()), {before, after, 0, 0});
  const UpFirDn how{.up = {2, 1}, .padding = {6, 5, 0, 0}, .gain = 2};
  return upfirdn2d(rows, filter.unsqueeze(0), how)[0][0];
}

constexpr int64_t kHalvingPad = 5 - 2 * kSym6Cropped;  // 5 keeps the size

// [length, length / 2 - 2 kSym6Cropped]
Tensor halving(int64_t length, const Tensor& filter) {
  const UpFirDn how{
      .down = {2, 1}, .padding = {kHalvingPad, kHalvingPad, 0, 0}, .flip_filter = true};
  return upfirdn2d(unit_matrix(length, filter.options()), filter.unsqueeze(0), how)[0][0];
}

// Doubles the resolution of a picture that is mirrored already.
Tensor doubled_by_filter(const Tensor& mirrored) {
  const UpFirDn how{.up = {2, 2}, .padding = {6, 5, 6, 5}, .gain = 4};
  return upfirdn2d(mirrored, sym6_lowpass_like(mirrored), how);
}

// An axis of a picture of `length` pixels, mirrored as far as can be: 3 length - 2 pixels, each of
// which is `fine` pixels now. 1 where they lie within the margins [] `before` and `after`, else 0.
Tensor within(int64_t length, int64_t fine, const Tensor& before, const Tensor& after) {
  const Tensor pixel =
      (at::arange(fine * (3 * length - 2), before.options()) / fine).floor() - (length - 1);
  return (pixel >= -before).logical_and(pixel < after + length);
}

// x with 0 beyond the margins, x mirrored as far as can be with `fine` pixels for one.
Tensor cleared_beyond(const Tensor& x, const Tensor& margins, at::IntArrayRef size, int64_t fine) {
  const Tensor columns = within(size[1], fine, margins[0], margins[1]).view({1, 1, 1, -1});
  const Tensor rows = within(size[0], fine, margins[2], margins[3]).view({1, 1, -1, 1});
  return x * rows.logical_and(columns).to(x.scalar_type());
}

}  // namespace

Tensor on_both_axes(const Tensor& x, const Tensor& rows, const Tensor& columns) {
  const WithoutAutocast exact;
  return OnBothAxes::apply(x, rows, columns);
}

Tensor unit_matrix(int64_t length, const at::TensorOptions& options) {
  return at::eye(length, options).view({1, 1, length, length});
}

FilterRoute usual_route(const Tensor& x) {
  return x.is_cpu() ? FilterRoute::kMatrices : FilterRoute::kFilter;
}

Tensor sym6_doubled(const Tensor& x, const Padding2d& m, FilterRoute route) {
  if (route == FilterRoute::kMatrices) {
    const Tensor filter = sym6_lowpass_like(x);
    return on_both_axes(
        x, doubling(x.size(2), m.y0, m.y1, filter), doubling(x.size(3), m.x0, m.x1, filter));
  }
  return doubled_by_filter(at::reflection_pad2d(x, {m.x0, m.x1, m.y0, m.y1}));
}

Tensor sym6_doubled_within(const Tensor& x, const Tensor& margins) {
  const at::IntArrayRef size = x.sizes().slice(2);
  const int64_t h = size[0] - 1, w = size[1] - 1;
  const Tensor mirrored = at::reflection_pad2d(x, {w, w, h, h});
  // Twice: the filter must not see what lies beyond the margins, and must not reach beyond them.
  return cleared_beyond(
      doubled_by_filter(cleared_beyond(mirrored, margins, size, 1)), margins, size, 2);
}

Tensor sym6_halved(const Tensor& x, FilterRoute route) {
  const Tensor filter = sym6_lowpass_like(x);
  if (route == FilterRoute::kMatrices) {
    return on_both_axes(x, halving(x.size(2), filter), halving(x.size(3), filter));
  }
  const UpFirDn how{.down = {2, 2},
                    .padding = {kHalvingPad, kHalvingPad, kHalvingPad, kHalvingPad},
                    .flip_filter = true};
  return upfirdn2d(x, filter, how);
}

}  // namespace gantrain
