// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "augment/augment.h"
#include "augment/sample_matrix.h"
#include "augment/sample_values.h"
#include "core/torch.h"

namespace gantrain {

namespace {

template <class Number>
using Color = SampleMatrix<Number, 4>;

// l on the luma axis v = (1, 1, 1) / sqrt 3, c across it, s across both (v x .): every linear
// transform of colour in app. B is one of these.
template <class Number>
Color<Number> about_luma(const Number& l, const Number& c, const Number& s) {
  const Number cross = s / std::sqrt(3.0);
  const Number all = (l - c) / 3;
  return {all + c,
          all - cross,
          all + cross,
          0,
          all + cross,
          all + c,
          all - cross,
          0,
          all - cross,
          all + cross,
          all + c,
          0,
          0,
          0,
          0,
          1};
}

template <class Number>
Color<Number> brighter(const Number& by) {
  return {1, 0, 0, by, 0, 1, 0, by, 0, 0, 1, by, 0, 0, 0, 1};
}

// The matrix that each sample's RGB is multiplied by from the left.
template <class Number>
SampleValues<Number, 16> transforms(const AugmentOptions& o,
                                    const Number& p,
                                    bool rgb,
                                    AugmentDraws& draws) {
  using std::cos, std::exp2, std::floor, std::sin;
  using D = AugmentDistribution;
  SampleValues<Number, 16> C(identity_matrix<4>());
  const auto apply = [&](const AugmentTransform<Number>& transform, auto&& matrix) {
    if (is_never(transform.probability)) return;
    C.apply(transform, draws, matrix, [](const auto& before, const auto& made) {
      return matrix_product<4>(made, before);
    });
  };
  apply({"brightness", D::kNormal, 1, o.brightness * p},
        [&](const Number* n) { return brighter<Number>(*n * o.brightness_std); });
  apply({"contrast", D::kNormal, 1, o.contrast * p}, [&](const Number* n) {
    const Number scale = exp2(*n * o.contrast_std);
    return about_luma<Number>(scale, scale, 0);
  });
  apply({"lumaflip", D::kUniform, 1, o.lumaflip * p},
        [](const Number* u) { return about_luma<Number>(1 - 2 * floor(2 * *u), 1, 0); });
  if (!rgb) return C;
  apply({"hue", D::kUniform, 1, o.hue * p}, [&](const Number* u) {
    const Number angle = (2 * *u - 1) * M_PI * o.hue_max;
    return about_luma<Number>(1, cos(angle), sin(angle));
  });
  apply({"saturation", D::kNormal, 1, o.saturation * p},
        [&](const Number* n) { return about_luma<Number>(1, exp2(*n * o.saturation_std), 0); });
  return C;
}

// [N, c, c + 1] float64: factors and constant of the c colour channels; undefined without any
// transform. Grey is RGB with three equal channels, of which the mean is taken.
at::Tensor color_matrices(const at::Tensor& p,
                          const AugmentOptions& options,
                          bool rgb,
                          AugmentDraws& draws) {
  return with_strength(p, [&](const auto& strength) -> at::Tensor {
    const auto C = transforms(options, strength, rgb, draws);
    if (C.empty()) return {};
    const at::Tensor all = C.tensor().view({-1, 4, 4}).narrow(1, 0, 3).contiguous();
    if (rgb) return all;
    const at::Tensor grey = all.mean(1, true);
    return at::cat({grey.narrow(2, 0, 3).sum(2, true), grey.narrow(2, 3, 1)}, 2);
  });
}

}  // namespace

at::Tensor augment_color(const at::Tensor& images,
                         const at::Tensor& p,
                         const AugmentOptions& options,
                         AugmentDraws& draws) {
  const bool rgb = images.size(1) >= 3;
  const at::Tensor exact = color_matrices(p, options, rgb, draws);
  if (!exact.defined()) return images;
  TORCH_CHECK(exact.size(0) == images.size(0), "draws for ", exact.size(0), " samples");
  const int64_t channels = rgb ? 3 : 1;
  const at::Tensor matrices = exact.to(images.scalar_type());
  const auto column = [&](int64_t i) { return matrices.select(2, i).view({-1, channels, 1, 1}); };
  // Not a matrix product: that would round to 11 bits where TF32 is allowed.
  at::Tensor x = column(channels);
  for (int64_t i = 0; i < channels; ++i) x = at::addcmul(x, images.narrow(1, i, 1), column(i));
  if (images.size(1) == channels) return x;
  return at::cat({x, images.narrow(1, channels, images.size(1) - channels)}, 1);
}

}  // namespace gantrain
