// SPDX-License-Identifier: Apache-2.0
#include "augment/augment.h"

#include <cmath>
#include <type_traits>

#include "augment/wavelets.h"
#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/upfirdn2d/upfirdn2d.h"
#include "util/error.h"

namespace gantrain {

namespace {

// The transforms of colour, in their order.
std::vector<NamedStep> colour_steps(const AugmentOptions& o, bool rgb) {
  using K = MatrixKind;
  std::vector<NamedStep> steps = {{"brightness", {K::kBrightness, o.brightness, o.brightness_std}},
                                  {"contrast", {K::kContrast, o.contrast, o.contrast_std}},
                                  {"lumaflip", {K::kLumaFlip, o.lumaflip}}};
  if (rgb) {
    steps.push_back({"hue", {K::kHue, o.hue, o.hue_max}});
    steps.push_back({"saturation", {K::kSaturation, o.saturation, o.saturation_std}});
  }
  return possible(steps);
}

// The matrix that each sample's RGB is multiplied by from the left.
template <class Number>
SampleValues<Number, 16> transforms(const std::vector<NamedStep>& steps,
                                    const Number& p,
                                    AugmentDraws& draws) {
  if constexpr (std::is_same_v<Number, SampleNumber>) {
    if (const auto made = drawn_by_kernel(steps, p, draws, {.colour = true}))
      return SampleValues<Number, 16>(made->each);
  }
  SampleValues<Number, 16> C(identity_matrix<4>());
  for (const NamedStep& named : steps) {
    C.apply(
        transform_of(named, p),
        draws,
        [&](const Number* drawn) { return colour_matrix(named.step, drawn); },
        [](const auto& before, const auto& made) { return matrix_product<4>(made, before); });
  }
  return C;
}

// [N, c, c + 1] float64: factors and constant of the c colour channels; undefined without any
// transform. Grey is RGB with three equal channels, of which the mean is taken.
Tensor color_matrices(const Tensor& p,
                      const AugmentOptions& options,
                      bool rgb,
                      AugmentDraws& draws) {
  const std::vector<NamedStep> steps = colour_steps(options, rgb);
  if (steps.empty()) return {};
  return with_strength(p, [&](const auto& strength) -> Tensor {
    const auto C = transforms(steps, strength, draws);
    const Tensor all = C.tensor().view({-1, 4, 4}).narrow(1, 0, 3).contiguous();
    if (rgb) return all;
    const Tensor grey = all.mean(1, true);
    return at::cat({grey.narrow(2, 0, 3).sum(2, true), grey.narrow(2, 3, 1)}, 2);
  });
}

}  // namespace

Tensor augment_color(const Tensor& images,
                     const Tensor& p,
                     const AugmentOptions& options,
                     AugmentDraws& draws) {
  if (images.size(1) > 4) return images;  // no colours
  const bool rgb = images.size(1) >= 3;
  const Tensor exact = color_matrices(p, options, rgb, draws);
  if (!exact.defined()) return images;
  TORCH_CHECK(exact.size(0) == images.size(0), "draws for ", exact.size(0), " samples");
  const int64_t channels = rgb ? 3 : 1;
  const Tensor matrices = exact.to(images.scalar_type());
  const auto column = [&](int64_t i) { return matrices.select(2, i).view({-1, channels, 1, 1}); };
  // Not a matrix product: that would round to 11 bits where TF32 is allowed.
  Tensor x = column(channels);
  for (int64_t i = 0; i < channels; ++i) x = at::addcmul(x, images.narrow(1, i, 1), column(i));
  if (images.size(1) == channels) return x;
  return at::cat({x, images.narrow(1, channels, images.size(1) - channels)}, 1);
}

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
    if constexpr (std::is_same_v<std::decay_t<decltype(a)>, Tensor>) {
      return Tensor(a * b);
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
Tensor band_matrices(int64_t length, const Tensor& like) {
  const int64_t taps = static_cast<int64_t>(kOctaveBandTaps), pad = taps / 2;
  const Tensor filters = octave_band_filters_like(like).view({-1, 1, taps});
  const Tensor mirrored =
      at::reflection_pad2d(unit_matrix(length, filters.options()), {pad, pad, 0, 0});
  std::vector<Tensor> matrices;
  for (const Tensor& filter : filters.unbind()) {
    matrices.push_back(upfirdn2d(mirrored, filter, {})[0][0]);
  }
  return at::stack(matrices);
}

}  // namespace

Tensor augment_filter(const Tensor& images,
                      const Tensor& p,
                      const AugmentOptions& options,
                      AugmentDraws& draws) {
  if (options.imgfilter <= 0) return images;
  const Tensor exact = with_strength(p, [&](const auto& strength) -> Tensor {
    return band_gains(options, strength, draws).tensor();
  });
  check_count(exact.size(0), images.size(0));
  const Tensor gains = exact.to(images.scalar_type());
  // Rows and columns by the same filter, each sample by its own.
  const auto filter = [&](int64_t length) {
    return at::matmul(gains, band_matrices(length, images).flatten(1))
        .view({-1, 1, length, length});
  };
  return on_both_axes(images, filter(images.size(2)), filter(images.size(3)));
}

Tensor augment_noise(const Tensor& images,
                     const Tensor& p,
                     const AugmentOptions& options,
                     AugmentDraws& draws) {
  if (options.noise <= 0) return images;
  const Tensor sigma = with_strength(p, [&](const auto& strength) -> Tensor {
    return noise_strengths(options, strength, draws).tensor();
  });
  check_count(sigma.size(0), images.size(0));
  const Tensor field = draws.normal("noise/field", images.sizes().slice(1));
  const Tensor noise = field * sigma.view({-1, 1, 1, 1}).to(field.scalar_type());
  return images + noise.to(images.scalar_type());
}

Tensor augment_cutout(const Tensor& images,
                      const Tensor& p,
                      const AugmentOptions& options,
                      AugmentDraws& draws) {
  if (options.cutout <= 0) return images;
  const Tensor probability = (p * options.cutout).to(at::kFloat);
  const Tensor on = draws.uniform("cutout/on", {}) < probability;
  const Tensor centre = draws.uniform("cutout", {2});
  check_count(on.size(0), images.size(0));
  const Tensor half = on * (options.cutout_size / 2);
  const Tensor box = at::cat({centre.to(at::kDouble), half.to(at::kDouble).unsqueeze(1)}, 1)
                         .to(images.scalar_type());
  const auto part = [&](int64_t i) { return box.select(1, i).view({-1, 1, 1, 1}); };
  const auto outside = [&](int64_t length, int64_t i) {
    const Tensor centres = (at::arange(length, box.options()) + .5) / length;
    return (centres.view({1, 1, 1, -1}) - part(i)).abs() >= part(2);
  };
  const Tensor keep =
      outside(images.size(3), 0).logical_or(outside(images.size(2), 1).transpose(2, 3));
  return images * keep.to(images.scalar_type());
}

Tensor augment(const Tensor& images,
               const Tensor& p,
               const AugmentOptions& options,
               AugmentDraws& draws) {
  const bool exact_type = images.scalar_type() == at::kFloat || images.scalar_type() == at::kDouble;
  TORCH_CHECK(images.dim() == 4 && exact_type, "augment: images ", images.toString());
  TORCH_CHECK(p.dim() == 0 && p.scalar_type() == at::kDouble && p.device() == images.device(),
              "augment: p ",
              p.toString(),
              " for images ",
              images.toString());
  const bool host_knows_p = reads_are_free(p.device());
  if (host_knows_p) {
    TORCH_CHECK(read_free(p) >= 0, "augment: p ", read_free(p));
    if (read_free(p) == 0) return images;
  }
  check_augment(options, {images.size(3), images.size(2)}, images.size(1));
  const WithoutAutocast exact;
  Tensor x = images;
  for (const auto stage :
       {augment_geometry, augment_color, augment_filter, augment_noise, augment_cutout}) {
    x = stage(x, p, options, draws);
  }
  if (host_knows_p || x.is_same(images)) return x;
  return at::where(p > 0, x, images);
}

namespace {
constexpr double kWarnFrom = .8;
}

AdaptiveStrength::AdaptiveStrength(const AdaptiveOptions& options, int64_t batch, at::Device device)
    : options_(options),
      step_(static_cast<double>(batch * options.interval) /
            static_cast<double>(options.kimg.images)),
      p_(at::zeros({}, at::TensorOptions(device).dtype(at::kDouble))),
      signs_(at::zeros({2}, at::TensorOptions(device).dtype(at::kDouble))) {}

void AdaptiveStrength::set(double p) {
  const torch::NoGradGuard no_grad;
  p_.fill_(p);
}

Tensor AdaptiveStrength::signs(const Tensor& real_scores) {
  const Tensor sign = real_scores.detach().sign();
  return at::stack({sign.sum(), at::full_like(sign.sum(), real_scores.numel())});
}

void AdaptiveStrength::add(const Tensor& sums) {
  const torch::NoGradGuard no_grad;
  signs_.add_(sums);
}

void AdaptiveStrength::end_iteration(int64_t iteration) {
  if ((iteration + 1) % options_.interval != 0) return;
  const torch::NoGradGuard no_grad;
  const Tensor sum = signs_.select(0, 0), count = signs_.select(0, 1);
  const Tensor r = at::where(count > 0, sum / count, options_.target);
  // Neither comparison holds for what is no number.
  const Tensor above = (r > options_.target).to(at::kDouble);
  const Tensor below = (r < options_.target).to(at::kDouble);
  p_.add_((above - below) * step_).clamp_(0, 1);
  signs_.zero_();
}

std::optional<double> AdaptiveStrength::crossed_warning() {
  if (warned_) return {};
  const double p = p_.item<double>();
  if (p < kWarnFrom) return {};
  warned_ = true;
  return p;
}

Ada::Ada(const AdaOptions& options,
         const AugmentOptions& transforms,
         const AugmentChoice<AugmentMode>& choice,
         const Pictures& pictures)
    : options_(options),
      transforms_(transforms),
      choice_(choice),
      strength_(options.adaptive, pictures.batch, pictures.device) {
  if (choice.mode != AugmentMode::kAda) options_.mode = Augmentation::kNone;
  if (options_.mode != Augmentation::kNone)
    check_augment(transforms, pictures.resolution, pictures.channels);
  strength_.set(options_.mode == Augmentation::kNone ? 0 : options.p.at(0));
  if (options_.mode == Augmentation::kFixed && !options.p.is_constant()) {
    fixed_p_ = {[p = options.p](int64_t images_seen) { return p.at(images_seen); },
                at::TensorOptions().device(pictures.device).dtype(at::kDouble)};
  } else if (options_.mode == Augmentation::kFixed) {
    fixed_p_ = options.p.at(0);
    constant_p_ = strength_.p().clone();
  }
}

Tensor Ada::operator()(const Tensor& x, const DrawKey& key, const Samples& samples) const {
  if (choice_.mode == AugmentMode::kDiff)
    return diff_augment(x,
                        diff_augment_draws(choice_.policy, key, samples, {x.size(3), x.size(2)}));
  if (options_.mode == Augmentation::kNone) return x;
  StreamDraws draws(key, samples);
  return augment(x, p(), transforms_, draws);
}

void Ada::end_iteration(int64_t iteration) {
  if (options_.mode == Augmentation::kAda) strength_.end_iteration(iteration);
}

std::vector<std::string> Ada::warnings(const std::string& gamma) {
  const std::optional<double> p = strength_.crossed_warning();
  if (!p || options_.mode != Augmentation::kAda) return {};
  return {fmt::format(
      "augmentation p = {:.2f}: from here on it may leak into the pictures; D overfits: more data, "
      "or a larger {}",
      *p,
      gamma)};
}

NamedTensors Ada::state() const {
  NamedTensors all;
  for (const auto& [name, tensor] : strength_.state()) all.emplace_back("ada/" + name, tensor);
  return all;
}

}  // namespace gantrain
