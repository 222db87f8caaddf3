// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <cmath>

#include "recipes/stylegan2/augment.h"
#include "recipes/stylegan2/augment_matrix.h"

namespace gantrain::stylegan2 {

namespace {

using Color = Matrix<4>;

// l on the luma axis v = (1, 1, 1) / sqrt 3, c across it, s across both (v x .): every linear
// transform of colour in app. B is one of these.
Color about_luma(double l, double c, double s) {
  const double cross = s / std::sqrt(3.0);
  const double all = (l - c) / 3;
  return {{{all + c, all - cross, all + cross, 0},
           {all + cross, all + c, all - cross, 0},
           {all - cross, all + cross, all + c, 0},
           {0, 0, 0, 1}}};
}

Color brighter(double by) { return {{{1, 0, 0, by}, {0, 1, 0, by}, {0, 0, 1, by}, {0, 0, 0, 1}}}; }

// For each sample the matrix that RGB is multiplied by from the left.
std::vector<Color> transforms(const AugmentOptions& o, double p, bool rgb, Draws& draws) {
  std::vector<Color> C;
  const auto apply = [&](const Transform& transform, auto&& matrix) {
    if (transform.probability <= 0) return;
    const Drawn drawn = draw(transform, draws);
    C.resize(drawn.on.size(), identity<4>());
    for (size_t n = 0; n < C.size(); ++n) {
      if (drawn.on[n]) C[n] = matrix(drawn.number[n]) * C[n];
    }
  };
  using D = Distribution;
  apply({"brightness", D::kNormal, 1, o.brightness * p},
        [&](double n) { return brighter(n * o.brightness_std); });
  apply({"contrast", D::kNormal, 1, o.contrast * p}, [&](double n) {
    const double scale = std::exp2(n * o.contrast_std);
    return about_luma(scale, scale, 0);
  });
  apply({"lumaflip", D::kUniform, 1, o.lumaflip * p},
        [](double u) { return about_luma(1 - 2 * std::floor(2 * u), 1, 0); });
  if (!rgb) return C;
  apply({"hue", D::kUniform, 1, o.hue * p}, [&](double u) {
    const double angle = (2 * u - 1) * M_PI * o.hue_max;
    return about_luma(1, std::cos(angle), std::sin(angle));
  });
  apply({"saturation", D::kNormal, 1, o.saturation * p},
        [&](double n) { return about_luma(1, std::exp2(n * o.saturation_std), 0); });
  return C;
}

// [N, c, c + 1]: factors and constant of the c colour channels. Grey is RGB with three equal
// channels, of which the mean is taken.
at::Tensor packed(const std::vector<Color>& C, bool rgb) {
  const at::Tensor all = at::empty({static_cast<int64_t>(C.size()), 3, 4}, at::kDouble);
  double* at = all.data_ptr<double>();
  for (const Color& c : C) {
    for (size_t row = 0; row < 3; ++row) at = std::copy(c[row].begin(), c[row].end(), at);
  }
  if (rgb) return all;
  const at::Tensor grey = all.mean(1, true);
  return at::cat({grey.narrow(2, 0, 3).sum(2, true), grey.narrow(2, 3, 1)}, 2);
}

}  // namespace

at::Tensor augment_color(const at::Tensor& images,
                         double p,
                         const AugmentOptions& options,
                         Draws& draws) {
  const bool rgb = images.size(1) >= 3;
  const std::vector<Color> C = transforms(options, p, rgb, draws);
  if (C.empty()) return images;
  TORCH_CHECK(static_cast<int64_t>(C.size()) == images.size(0), "draws for ", C.size(), " samples");
  const int64_t channels = rgb ? 3 : 1;
  const at::Tensor matrices = sent_to(packed(C, rgb), images);
  const auto column = [&](int64_t i) { return matrices.select(2, i).view({-1, channels, 1, 1}); };
  // Not a matrix product: that would round to 11 bits where TF32 is allowed.
  at::Tensor x = column(channels);
  for (int64_t i = 0; i < channels; ++i) x = at::addcmul(x, images.narrow(1, i, 1), column(i));
  if (images.size(1) == channels) return x;
  return at::cat({x, images.narrow(1, channels, images.size(1) - channels)}, 1);
}

}  // namespace gantrain::stylegan2
