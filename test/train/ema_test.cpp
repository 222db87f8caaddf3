// SPDX-License-Identifier: Apache-2.0
#include "train/ema.h"

#include <catch2/catch.hpp>

#include "tensor_checks.h"

using namespace gantrain;

namespace {
struct Net final : torch::nn::Module {
  Net() {
    weight = register_parameter("weight", torch::zeros({3}));
    mean = register_buffer("mean", torch::zeros({2}));
  }
  at::Tensor weight, mean;
};
}  // namespace

TEST_CASE("AfterAHalfLifeAnOldWeightCountsHalf") {
  EmaOptions o;
  o.half_life.images = 1000;
  o.rampup = 0;
  double kept = 1;
  for (int i = 0; i < 10; ++i) kept *= ema_beta(o, 0, 100);
  CHECK(kept == Approx(0.5));
}

TEST_CASE("TheRampShortensTheHalfLifeAtTheStart") {
  const EmaOptions o;  // 10 kimg, ramp .05
  CHECK(ema_beta(o, 0, 64) == 0);
  CHECK(ema_beta(o, 20'000, 64) == Approx(std::pow(0.5, 64.0 / 1000)));
  CHECK(ema_beta(o, 10'000'000, 64) == Approx(std::pow(0.5, 64.0 / 10000)));
}

TEST_CASE("ParametersAreAveragedAndBuffersCopied") {
  Net average, source;
  source.weight.data().fill_(8);
  source.mean.fill_(3);
  update_ema(average, source, 0.75);
  CHECK(average.weight[0].item<float>() == 2);
  CHECK(average.mean[1].item<float>() == 3);
  update_ema(average, source, 0);
  CHECK(average.weight[0].item<float>() == 8);
}
