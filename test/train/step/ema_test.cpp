// SPDX-License-Identifier: Apache-2.0
#include "core/device.h"
#include "support/catch.h"
#include "support/tensor_checks.h"
#include "train/step/players.h"

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
  o.half_life = Kimg{1000};
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
  update_ema(average, source, 0.25);
  CHECK(average.weight[0].item<float>() == 2);
  CHECK(average.mean[1].item<float>() == 3);
  update_ema(average, source, 1);
  CHECK(average.weight[0].item<float>() == 8);
}

TEST_CASE("AWeightOnTheDeviceMovesTheAverageAsANumberDoes") {
  // lerp rounds a + (b - a) * w once where the weight is a number, and the tensor of the weight is
  // float32: a rounding of the average itself apart.
  const auto averaged = [](double weight, bool reads_wait) {
    std::optional<AssumeReadsWait> assumed;
    if (reads_wait) assumed.emplace();
    Net average, source;
    average.weight.data().copy_(torch::tensor({0.1F, -3.0F, 7.0F}));
    source.weight.data().copy_(torch::tensor({0.3F, 5.0F, 7.5F}));
    DeviceNumber moving([weight](int64_t) { return weight; }, at::kFloat);
    update_ema(average, source, moving);
    return average.weight.detach().clone();
  };
  for (const double weight : {0.0, 1e-4, 0.3, 0.75, 1.0}) {
    CAPTURE(weight);
    CHECK(torch::allclose(averaged(weight, true), averaged(weight, false), 2e-7, 5e-7));
  }
}

TEST_CASE("AHalfLifeMayBeARamp") {
  EmaOptions o;
  o.rampup = 0;
  o.half_life = ScheduledKimg(Scheduled(1000, 3000, Kimg{10'000}, RampShape::kLinear));
  CHECK(ema_beta(o, 0, 100) == Approx(std::pow(0.5, 0.1)));
  CHECK(ema_beta(o, 5000, 100) == Approx(std::pow(0.5, 0.05)));
  CHECK(ema_beta(o, 50'000, 100) == Approx(std::pow(0.5, 0.1 / 3)));
}
