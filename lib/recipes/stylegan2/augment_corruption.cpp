// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <cmath>

#include "ops/upfirdn2d.h"
#include "recipes/stylegan2/augment.h"
#include "recipes/stylegan2/resample.h"
#include "recipes/stylegan2/wavelets.h"

namespace gantrain::stylegan2 {

namespace {

void check_count(size_t drawn, int64_t samples) {
  TORCH_CHECK(static_cast<int64_t>(drawn) == samples, drawn, " draws for ", samples, " samples");
}

// Expected power of natural pictures' bands (app. B).
constexpr std::array<double, kBands> kBandPower = {10.0 / 13, 1.0 / 13, 1.0 / 13, 1.0 / 13};

// Each sample's gains of the bands, [N, kBands]. A gain t of one band is accompanied by one of all
// bands that keeps the expected power.
at::Tensor band_gains(const AugmentOptions& o, double p, int64_t samples, Draws& draws) {
  const at::Tensor gains = at::ones({samples, static_cast<int64_t>(kBands)}, at::kDouble);
  for (size_t band = 0; band < kBands; ++band) {
    const Drawn drawn = draw({"imgfilter/" + std::to_string(band + 1),
                              Distribution::kNormal,
                              1,
                              o.imgfilter * o.imgfilter_bands[band] * p},
                             draws);
    check_count(drawn.on.size(), samples);
    for (size_t n = 0; n < drawn.on.size(); ++n) {
      if (!drawn.on[n]) continue;
      double* gain = gains.data_ptr<double>() + n * kBands;
      const double t = std::exp2(drawn.number[n] * o.imgfilter_std);
      const double keep = 1 / std::sqrt(1 + kBandPower[band] * (t * t - 1));
      for (size_t i = 0; i < kBands; ++i) gain[i] *= i == band ? keep * t : keep;
    }
  }
  return gains;
}

// The band filters on an axis with mirrored borders as matrices, [kBands, length, length].
at::Tensor band_matrices(int64_t length, const at::Tensor& like) {
  const int64_t taps = static_cast<int64_t>(kBandTaps), pad = taps / 2;
  const auto bands = band_filters();
  const at::Tensor filters =
      sent_to(torch::tensor(at::ArrayRef<double>(bands[0].data(), kBands * kBandTaps), at::kDouble),
              like)
          .view({-1, 1, taps});
  const at::Tensor mirrored =
      at::reflection_pad2d(unit_matrix(length, filters.options()), {pad, pad, 0, 0});
  std::vector<at::Tensor> matrices;
  for (const at::Tensor& filter : filters.unbind()) {
    matrices.push_back(upfirdn2d(mirrored, filter, {})[0][0]);
  }
  return at::stack(matrices);
}

}  // namespace

at::Tensor augment_filter(const at::Tensor& images,
                          double p,
                          const AugmentOptions& options,
                          Draws& draws) {
  if (options.imgfilter <= 0) return images;
  const at::Tensor gains = sent_to(band_gains(options, p, images.size(0), draws), images);
  // Rows and columns by the same filter, each sample by its own.
  const auto filter = [&](int64_t length) {
    return at::matmul(gains, band_matrices(length, images).flatten(1))
        .view({-1, 1, length, length});
  };
  return on_both_axes(images, filter(images.size(2)), filter(images.size(3)));
}

at::Tensor augment_noise(const at::Tensor& images,
                         double p,
                         const AugmentOptions& options,
                         Draws& draws) {
  if (options.noise <= 0) return images;
  const Drawn drawn = draw({"noise", Distribution::kNormal, 1, options.noise * p}, draws);
  const at::Tensor field = draws.normal("noise/field", images.sizes().slice(1));
  const at::Tensor sigma = at::zeros({images.size(0), 1, 1, 1}, at::kDouble);
  check_count(drawn.on.size(), images.size(0));
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
  check_count(static_cast<size_t>(on.size(0)), images.size(0));
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
