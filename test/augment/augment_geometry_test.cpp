// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "augment/known_draws.h"
#include "support/gradient_checks.h"

using namespace gantrain;
using O = AugmentOptions;

namespace {

at::Tensor geometry(const at::Tensor& x, const AugmentOptions& o, double u) {
  PercentileDraws draws(u, x.size(0));
  return augment_geometry(x, strength(1), o, draws);
}

// Away from the border, whose mirror image has a crease.
double inner_difference(const at::Tensor& a, const at::Tensor& b) {
  const auto inner = [](const at::Tensor& x) {
    return x.slice(2, 6, x.size(2) - 6).slice(3, 6, x.size(3) - 6);
  };
  return difference(inner(a), inner(b));
}
// sym6 is not symmetric: a turned filter does not undo an unturned one, and a flipped picture lies
// .098 pixels aside. These pictures change by less than .19 from pixel to pixel.
constexpr double kAside = .1 * .19;
constexpr double kUnturned = 1e-6;  // sym6 is orthonormal

}  // namespace

TEST_CASE("NoTransformAtAllGivesThePictureBack") {
  const at::Tensor x = torch::randn({2, 3, 16, 16}, at::kDouble);
  CHECK(difference(geometry(x, only({&O::xflip}), .2), x) < kUnturned);
  CHECK(difference(geometry(x, only({&O::rotate90}), .2), x) < kUnturned);
}

TEST_CASE("BlitsMoveWholePixels") {
  const at::Tensor x = pictures(2, 3, 32, 32);
  CHECK(inner_difference(geometry(x, only({&O::xflip}), .7), x.flip(3)) < kAside);
  for (const int64_t turns : {1, 2, 3}) {  // against the clock
    const at::Tensor turned = at::rot90(x, turns, {2, 3});
    const double u = (static_cast<double>(turns) + .5) / 4;
    CHECK(inner_difference(geometry(x, only({&O::rotate90}), u), turned) < 2 * kAside);
  }
}

TEST_CASE("WholePixelShiftsMirrorAtTheBorder") {
  const at::Tensor x = pictures(1, 2, 16, 16);
  AugmentOptions o = only({&O::xint});
  o.xint_max = .25;  // u = .875: .75 * .25 * 16 = 3 pixels right and down
  const at::Tensor shifted = at::reflection_pad2d(x, {3, 0, 3, 0}).slice(2, 0, 16).slice(3, 0, 16);
  CHECK(difference(geometry(x, o, .875), shifted) < kUnturned);
}

TEST_CASE("ARotationByAQuarterIsAQuarterTurn") {
  const at::Tensor x = pictures(2, 1, 32, 32);
  const at::Tensor turned = geometry(x, only({&O::rotate90}), .3);
  CHECK(difference(geometry(x, only({&O::rotate}), .75), turned) < 1e-12);
}

TEST_CASE("ScalingUpShowsTheMiddleLarger") {
  AugmentOptions o = only({&O::scale});
  const at::Tensor x = torch::zeros({1, 1, 32, 32});
  x.slice(2, 12, 20).slice(3, 12, 20).fill_(1);
  const double area = x.sum().item<double>();
  const double n = torch::erfinv(torch::tensor(.5)).item<double>();  // q = .75
  o.scale_std = 1 / n;                                               // 2^1
  CHECK(geometry(x, o, .75).sum().item<double>() == Approx(4 * area).epsilon(.01));
  o = only({&O::aniso});
  o.aniso_std = 1 / n;
  const at::Tensor wide = geometry(x, o, .75).slice(2, 8, 24);  // beyond are mirror images
  CHECK(wide.sum().item<double>() == Approx(area).epsilon(.01));
  CHECK(wide[0][0][8][9].item<double>() == Approx(1).margin(.1));  // twice as wide
  CHECK(wide[0][0][3][16].item<double>() == Approx(0).margin(.1));
}

TEST_CASE("AThirdOfFlipsIsSeenAtTwoThirds") {
  constexpr int64_t kSamples = 2000;
  const at::Tensor x = pictures(1, 1, 4, 4).expand({kSamples, 1, 4, 4}).to(at::kFloat);
  StreamDraws draws = stream_draws(kSamples);
  const at::Tensor y = augment_geometry(x, strength(2. / 3), only({&O::xflip}), draws);
  const at::Tensor flipped = (y - x).abs().amax({1, 2, 3}) > .05;
  CHECK(flipped.to(at::kDouble).mean().item<double>() == Approx(1. / 3).margin(.032));
}

TEST_CASE("PicturesNeedNotBeSquare") {
  const at::Tensor x = pictures(2, 3, 24, 40);
  CHECK(inner_difference(geometry(x, only({&O::xflip}), .7), x.flip(3)) < kAside);
  const at::Tensor y = geometry(x, only({&O::rotate90, &O::rotate, &O::scale, &O::xfrac}), .6);
  CHECK(y.sizes() == x.sizes());
  CHECK(y.isfinite().all().item<bool>());
}

TEST_CASE("AConstantPictureStaysConstantWhateverTheMargins") {
  const at::Tensor x = torch::full({8, 3, 16, 16}, .5);
  AugmentOptions o = augment_pipe("bg");
  o.scale_std = .05;  // further out a mirror ends
  o.xfrac_std = .05;
  StreamDraws draws = stream_draws(8);
  CHECK(difference(augment_geometry(x, strength(1), o, draws), x) < .02);
}

TEST_CASE("GeometryIsTwiceDifferentiable") {
  const TensorFunction f = [](const Tensors& inputs) {
    StreamDraws draws = stream_draws(2, 7);
    return augment_geometry(inputs[0], strength(1), augment_pipe("bg"), draws);
  };
  const at::Tensor x = pictures(2, 2, 6, 6);
  CHECK(gradient_error(f, {x}) < kGradientTolerance);
  CHECK(second_gradient_error(f, {x}) < kGradientTolerance);
}
