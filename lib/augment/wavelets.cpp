// SPDX-License-Identifier: Apache-2.0
#include "augment/wavelets.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>
#include <vector>

#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/resample.h"

namespace gantrain {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

using Taps = std::vector<double>;

// Least asymmetric orthonormal wavelets of Daubechies, "Ten Lectures on Wavelets", 1992, sec. 8.1.1
// (table 8.1, with sum sqrt 2); sym2 is the four-tap one in closed form.
constexpr std::array<double, 12> kSym6 = {0.015404109327027373,
                                          0.0034907120842174702,
                                          -0.11799011114819057,
                                          -0.048311742585633,
                                          0.4910559419267466,
                                          0.787641141030194,
                                          0.3379294217276218,
                                          -0.07263752278646252,
                                          -0.021060292512300564,
                                          0.04472490177066578,
                                          0.0017677118642428036,
                                          -0.007800708325034148};

Taps sym2() {
  const double r = std::sqrt(3.0);
  const double scale = 4 * std::sqrt(2.0);
  return {(1 - r) / scale, (3 - r) / scale, (3 + r) / scale, (1 + r) / scale};
}

Taps convolve(const Taps& a, const Taps& b) {
  Taps out(a.size() + b.size() - 1);
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b.size(); ++j) out[i + j] += a[i] * b[j];
  }
  return out;
}

// Half of a filter's autocorrelation: the filter applied back and forth, which has no phase.
Taps back_and_forth(const Taps& h) {
  Taps out = convolve(h, Taps(h.rbegin(), h.rend()));
  for (double& tap : out) tap /= 2;
  return out;
}

Taps with_zeros_between(const Taps& h) {
  Taps out(2 * h.size() - 1);
  for (size_t i = 0; i < h.size(); ++i) out[2 * i] = h[i];
  return out;
}

}  // namespace

std::array<double, 12> sym6_lowpass() {
  std::array<double, 12> taps = kSym6;
  const double sum = std::accumulate(taps.begin(), taps.end(), 0.0);
  for (double& tap : taps) tap /= sum;
  return taps;
}

std::array<std::array<double, kOctaveBandTaps>, kOctaveBands> octave_band_filters() {
  Taps h = sym2();
  const Taps low = back_and_forth(h);
  for (size_t i = 1; i < h.size(); i += 2) h[i] = -h[i];
  const Taps high = back_and_forth(h);

  // Each level halves the lower bands' frequencies and adds the octave above them.
  std::vector<Taps> bands(kOctaveBands, Taps{0});
  bands[0] = {1};
  for (size_t level = 1; level < kOctaveBands; ++level) {
    for (Taps& band : bands) band = convolve(with_zeros_between(band), low);
    const size_t first = (bands[level].size() - high.size()) / 2;
    for (size_t i = 0; i < high.size(); ++i) bands[level][first + i] += high[i];
  }

  std::array<std::array<double, kOctaveBandTaps>, kOctaveBands> out{};
  for (size_t i = 0; i < kOctaveBands; ++i)
    std::copy(bands[i].begin(), bands[i].end(), out[i].begin());
  return out;
}

namespace {

// One constant in every place and type in which it has been asked for.
class KeptConstant {
 public:
  explicit KeptConstant(const Tensor& value) : value_(value) {}

  Tensor like(const Tensor& like) {
    const at::Device device = like.device();
    const std::lock_guard lock(mutex_);
    Tensor& kept = kept_[{device.type(), device.index(), like.scalar_type()}];
    if (!kept.defined()) {
      // A tensor made in inference mode could never take part in a training step.
      const c10::InferenceMode not_for_inference_alone(false);
      kept = value_.to(like.scalar_type()).to(device);
    }
    return kept;
  }

 private:
  Tensor value_;
  std::mutex mutex_;
  std::map<std::tuple<at::DeviceType, c10::DeviceIndex, at::ScalarType>, Tensor> kept_;
};

Tensor sym6() {
  const c10::InferenceMode not_for_inference_alone(false);
  return torch::tensor(at::ArrayRef<double>(sym6_lowpass()), at::kDouble);
}

Tensor bands() {
  const c10::InferenceMode not_for_inference_alone(false);
  const auto filters = octave_band_filters();
  return torch::tensor(at::ArrayRef<double>(filters[0].data(), kOctaveBands * kOctaveBandTaps),
                       at::kDouble)
      .view({static_cast<int64_t>(kOctaveBands), static_cast<int64_t>(kOctaveBandTaps)});
}

}  // namespace

// Never destroyed: at the program's end a GPU's memory may be gone before static objects are.
Tensor sym6_lowpass_like(const Tensor& like) {
  static KeptConstant& constant = *new KeptConstant(sym6());
  return constant.like(like);
}

Tensor octave_band_filters_like(const Tensor& like) {
  static KeptConstant& constant = *new KeptConstant(bands());
  return constant.like(like);
}

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
  return doubled_by_filter(mirrored(x, m));
}

Tensor sym6_doubled_within(const Tensor& x, const Tensor& margins) {
  const at::IntArrayRef size = x.sizes().slice(2);
  const int64_t h = size[0] - 1, w = size[1] - 1;
  const Tensor fully = mirrored(x, {w, w, h, h});
  // Twice: the filter must not see what lies beyond the margins, and must not reach beyond them.
  return cleared_beyond(
      doubled_by_filter(cleared_beyond(fully, margins, size, 1)), margins, size, 2);
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
