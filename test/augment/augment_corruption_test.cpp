// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "augment/known_draws.h"
#include "augment/wavelets.h"

using namespace gantrain;
using O = AugmentOptions;

TEST_CASE("EqualGainsOfAllBandsChangeNothing") {
  const at::Tensor x = pictures(2, 3, 24, 24);
  AugmentOptions o = only({&O::imgfilter});
  o.imgfilter_std = 0;
  StreamDraws draws = stream_draws(2);
  CHECK(difference(augment_filter(x, strength(1), o, draws), x) < 1e-12);
}

TEST_CASE("TheFilterKeepsTheExpectedPower") {
  // A band of gain t with all others: constants see the lowest band's gain alone.
  const at::Tensor x = torch::ones({1, 1, 22, 22}, at::kDouble);
  AugmentOptions o = only({&O::imgfilter});
  o.imgfilter_bands = {0, 0, 0, 1};
  const double t = std::exp2(1.0);
  o.imgfilter_std = 1 / torch::erfinv(torch::tensor(.5, at::kDouble)).item<double>();
  struct OneBand final : AugmentDraws {  // bands' multipliers become probabilities 0 and 1
    at::Tensor uniform(const std::string&, at::IntArrayRef) override { return at::full({1}, .5); }
    at::Tensor normal(const std::string&, at::IntArrayRef) override {
      return at::full({1, 1}, .4769362762044699);
    }
  } draws;
  const double keep = 1 / std::sqrt((12 + t * t) / 13);
  // Rows and columns: the gain twice.
  CHECK(difference(augment_filter(x, strength(1), o, draws), x * keep * keep) < 1e-6);
}

TEST_CASE("NoiseHasTheDrawnDeviation") {
  const at::Tensor x = torch::zeros({4, 3, 64, 64});
  StreamDraws draws = stream_draws(4), again = stream_draws(4);
  const at::Tensor y = augment_noise(x, strength(1), only({&O::noise}), draws);
  const at::Tensor sigma = again.normal("noise", {1}).abs() * .1;
  for (int64_t n = 0; n < 4; ++n) {
    CHECK(y[n].std().item<double>() == Approx(sigma[n].item<double>()).epsilon(.03));
    CHECK(std::abs(y[n].mean().item<double>()) < .05 * sigma[n].item<double>());
  }
}

TEST_CASE("CutoutGreysOneRectangle") {
  const at::Tensor x = torch::ones({1, 2, 32, 48});
  PercentileDraws middle(.5, 1), corner(0, 1);
  const at::Tensor inside = augment_cutout(x, strength(1), only({&O::cutout}), middle);
  CHECK(inside.slice(2, 8, 24).slice(3, 12, 36).abs().max().item<float>() == 0);
  CHECK(inside.sum().item<double>() == 2 * 32 * 48 * .75);
  const at::Tensor outside =
      augment_cutout(x, strength(1), only({&O::cutout}), corner);  // sticks out
  CHECK(outside.sum().item<double>() == 2 * 32 * 48 * .9375);
  CHECK(outside[0][0][0][0].item<float>() == 0);
}

TEST_CASE("SamplesThatAreNotChosenStayAsTheyAre") {
  const at::Tensor x = pictures(64, 3, 22, 22);
  StreamDraws again = stream_draws(64);
  const auto check = [&](const at::Tensor& y, const std::string& name, double tolerance) {
    const at::Tensor on = again.uniform(name + "/on", {}) < .5;
    const at::Tensor moved = (y - x).abs().amax({1, 2, 3});
    CAPTURE(name);
    CHECK(moved.masked_select(on.logical_not()).max().item<double>() <= tolerance);
    CHECK(moved.masked_select(on).max().item<double>() > .1);
  };
  StreamDraws draws = stream_draws(64);
  check(augment_noise(x, strength(.5), only({&O::noise}), draws), "noise", 0);
  check(augment_cutout(x, strength(.5), only({&O::cutout}), draws), "cutout", 0);
  AugmentOptions second_band = only({&O::imgfilter});
  second_band.imgfilter_bands = {0, 1, 0, 0};
  check(augment_filter(x, strength(.5), second_band, draws), "imgfilter/2", 1e-12);
}
