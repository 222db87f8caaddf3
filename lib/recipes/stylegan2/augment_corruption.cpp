// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <cmath>

#include "recipes/stylegan2/augment.h"
#include "recipes/stylegan2/wavelets.h"

namespace gantrain::stylegan2 {

namespace {

// Expected power of natural pictures' bands (app. B.2).
constexpr std::array<double, kBands> kBandPower = {10.0 / 13, 1.0 / 13, 1.0 / 13, 1.0 / 13};

// For each sample the amplified bands' sum, [N, kBandTaps]. A gain t of one band is accompanied by
// one of all bands that keeps the expected power.
at::Tensor band_gains(const AugmentOptions& o, double p, Draws& draws) {
  std::vector<std::array<double, kBands>> gains;
  for (size_t band = 0; band < kBands; ++band) {
    const Drawn drawn = draw({"imgfilter/" + std::to_string(band + 1),
                              Distribution::kNormal,
                              1,
                              o.imgfilter * o.imgfilter_bands[band] * p},
                             draws);
    gains.resize(drawn.on.size(), {1, 1, 1, 1});
    for (size_t n = 0; n < gains.size(); ++n) {
      if (!drawn.on[n]) continue;
      const double t = std::exp2(drawn.number[n] * o.imgfilter_std);
      const double keep = 1 / std::sqrt(1 + kBandPower[band] * (t * t - 1));
      for (double& gain : gains[n]) gain *= keep;
      gains[n][band] *= t;
    }
  }
  const auto bands = band_filters();
  const at::Tensor filters =
      at::zeros({static_cast<int64_t>(gains.size()), static_cast<int64_t>(kBandTaps)}, at::kDouble);
  double* filter = filters.data_ptr<double>();
  for (const auto& gain : gains) {
    for (size_t tap = 0; tap < kBandTaps; ++tap, ++filter) {
      for (size_t band = 0; band < kBands; ++band) *filter += gain[band] * bands[band][tap];
    }
  }
  return filters;
}

}  // namespace

at::Tensor augment_filter(const at::Tensor& images,
                          double p,
                          const AugmentOptions& options,
                          Draws& draws) {
  if (options.imgfilter <= 0) return images;
  const int64_t N = images.size(0), C = images.size(1);
  const int64_t taps = static_cast<int64_t>(kBandTaps), pad = taps / 2;
  const at::Tensor filters = sent_to(band_gains(options, p, draws), images);
  TORCH_CHECK(filters.size(0) == N, "draws for ", filters.size(0), " samples");
  // One group a channel of a sample; a filter for rows, the same for columns.
  const at::Tensor f = filters.unsqueeze(1).expand({N, C, taps}).reshape({N * C, 1, 1, taps});
  const int64_t H = images.size(2), W = images.size(3);
  at::Tensor x = at::reflection_pad2d(images, {pad, pad, pad, pad});
  x = x.reshape({1, N * C, H + 2 * pad, W + 2 * pad});
  x = at::convolution(x, f, {}, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, N * C);
  x = at::convolution(x, f.transpose(2, 3), {}, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, N * C);
  return x.reshape({N, C, H, W});
}

at::Tensor augment_noise(const at::Tensor& images,
                         double p,
                         const AugmentOptions& options,
                         Draws& draws) {
  if (options.noise <= 0) return images;
  const Drawn drawn = draw({"noise", Distribution::kNormal, 1, options.noise * p}, draws);
  const at::Tensor field = draws.normal("noise/field", images.sizes().slice(1));
  const at::Tensor sigma = at::zeros({images.size(0), 1, 1, 1}, at::kDouble);
  TORCH_CHECK(field.sizes() == images.sizes(), "draws for images ", field.sizes());
  for (size_t n = 0; n < drawn.on.size(); ++n) {
    if (drawn.on[n]) {
      sigma.data_ptr<double>()[n] = std::abs(drawn.number[n]) * options.noise_std;
    }
  }
  return images + sent_to(field * sigma.to(field), images);
}

at::Tensor augment_cutout(const at::Tensor& images,
                          double p,
                          const AugmentOptions& options,
                          Draws& draws) {
  if (options.cutout <= 0) return images;
  const at::Tensor on = draws.uniform("cutout/on", {}) < options.cutout * p;
  const at::Tensor centre = draws.uniform("cutout", {2});
  TORCH_CHECK(on.size(0) == images.size(0), "draws for ", on.size(0), " samples");
  const at::Tensor half = on * (options.cutout_size / 2);
  const at::Tensor box =
      sent_to(at::cat({centre.to(at::kDouble), half.to(at::kDouble).unsqueeze(1)}, 1), images);
  const auto part = [&](int64_t i) { return box.select(1, i).view({-1, 1, 1, 1}); };
  const auto outside = [&](int64_t length, int64_t i) {
    const at::Tensor centres = (at::arange(length, box.options()) + .5) / length;
    return (centres.view({1, 1, 1, -1}) - part(i)).abs() >= part(2);
  };
  const at::Tensor keep =
      outside(images.size(3), 0).logical_or(outside(images.size(2), 1).transpose(2, 3));
  return images * keep.to(images.scalar_type());
}

}  // namespace gantrain::stylegan2
