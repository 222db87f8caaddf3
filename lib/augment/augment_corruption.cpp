// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <type_traits>

#include "augment/augment.h"
#include "augment/sample_values.h"
#include "augment/sym6_resample.h"
#include "augment/wavelet_tensors.h"
#include "augment/wavelets.h"
#include "core/torch.h"
#include "ops/upfirdn2d.h"

namespace gantrain {

namespace {

void check_count(int64_t drawn, int64_t samples) {
  TORCH_CHECK(drawn == samples, drawn, " draws for ", samples, " samples");
}

// Expected power of natural pictures' bands (app. B).
constexpr std::array<double, kOctaveBands> kBandPower = {10.0 / 13, 1.0 / 13, 1.0 / 13, 1.0 / 13};

// A gain t of one band is accompanied by one of all bands that keeps the expected power.
template <class Number>
std::array<Number, kOctaveBands> band_gain(size_t band, const Number& t) {
  using std::sqrt;
  const Number keep = 1 / sqrt(1 + kBandPower[band] * (t * t - 1));
  std::array<Number, kOctaveBands> gains;
  gains.fill(keep);
  gains[band] = keep * t;
  return gains;
}

// Each sample's gains of the bands.
template <class Number>
SampleValues<Number, kOctaveBands> band_gains(const AugmentOptions& o,
                                              const Number& p,
                                              AugmentDraws& draws) {
  using std::exp2;
  const auto together = [](const auto& a, const auto& b) {
    if constexpr (std::is_same_v<std::decay_t<decltype(a)>, at::Tensor>) {
      return at::Tensor(a * b);
    } else {
      auto product = a;
      for (size_t i = 0; i < product.size(); ++i) product[i] *= b[i];
      return product;
    }
  };
  SampleValues<Number, kOctaveBands> gains(std::array<double, kOctaveBands>{1, 1, 1, 1});
  for (size_t band = 0; band < kOctaveBands; ++band) {
    gains.apply(
        {"imgfilter/" + std::to_string(band + 1),
         AugmentDistribution::kNormal,
         1,
         o.imgfilter * o.imgfilter_bands[band] * p},
        draws,
        [&](const Number* n) { return band_gain<Number>(band, exp2(*n * o.imgfilter_std)); },
        together);
  }
  return gains;
}

// The deviation of each sample's noise.
template <class Number>
SampleValues<Number, 1> noise_strengths(const AugmentOptions& o,
                                        const Number& p,
                                        AugmentDraws& draws) {
  using std::abs;
  SampleValues<Number, 1> sigma(std::array<double, 1>{0});
  sigma.apply(
      {"noise", AugmentDistribution::kNormal, 1, o.noise * p},
      draws,
      [&](const Number* n) { return std::array<Number, 1>{abs(*n) * o.noise_std}; },
      [](const auto&, const auto& made) { return made; });
  return sigma;
}

// The band filters on an axis with mirrored borders as matrices, [kOctaveBands, length, length].
at::Tensor band_matrices(int64_t length, const at::Tensor& like) {
  const int64_t taps = static_cast<int64_t>(kOctaveBandTaps), pad = taps / 2;
  const at::Tensor filters = octave_band_filters_like(like).view({-1, 1, taps});
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
                          const at::Tensor& p,
                          const AugmentOptions& options,
                          AugmentDraws& draws) {
  if (options.imgfilter <= 0) return images;
  const at::Tensor exact = with_strength(p, [&](const auto& strength) -> at::Tensor {
    return band_gains(options, strength, draws).tensor();
  });
  check_count(exact.size(0), images.size(0));
  const at::Tensor gains = exact.to(images.scalar_type());
  // Rows and columns by the same filter, each sample by its own.
  const auto filter = [&](int64_t length) {
    return at::matmul(gains, band_matrices(length, images).flatten(1))
        .view({-1, 1, length, length});
  };
  return on_both_axes(images, filter(images.size(2)), filter(images.size(3)));
}

at::Tensor augment_noise(const at::Tensor& images,
                         const at::Tensor& p,
                         const AugmentOptions& options,
                         AugmentDraws& draws) {
  if (options.noise <= 0) return images;
  const at::Tensor sigma = with_strength(p, [&](const auto& strength) -> at::Tensor {
    return noise_strengths(options, strength, draws).tensor();
  });
  check_count(sigma.size(0), images.size(0));
  const at::Tensor field = draws.normal("noise/field", images.sizes().slice(1));
  const at::Tensor noise = field * sigma.view({-1, 1, 1, 1}).to(field.scalar_type());
  return images + noise.to(images.scalar_type());
}

at::Tensor augment_cutout(const at::Tensor& images,
                          const at::Tensor& p,
                          const AugmentOptions& options,
                          AugmentDraws& draws) {
  if (options.cutout <= 0) return images;
  const at::Tensor probability = (p * options.cutout).to(at::kFloat);
  const at::Tensor on = draws.uniform("cutout/on", {}) < probability;
  const at::Tensor centre = draws.uniform("cutout", {2});
  check_count(on.size(0), images.size(0));
  const at::Tensor half = on * (options.cutout_size / 2);
  const at::Tensor box = at::cat({centre.to(at::kDouble), half.to(at::kDouble).unsqueeze(1)}, 1)
                             .to(images.scalar_type());
  const auto part = [&](int64_t i) { return box.select(1, i).view({-1, 1, 1, 1}); };
  const auto outside = [&](int64_t length, int64_t i) {
    const at::Tensor centres = (at::arange(length, box.options()) + .5) / length;
    return (centres.view({1, 1, 1, -1}) - part(i)).abs() >= part(2);
  };
  const at::Tensor keep =
      outside(images.size(3), 0).logical_or(outside(images.size(2), 1).transpose(2, 3));
  return images * keep.to(images.scalar_type());
}

}  // namespace gantrain
