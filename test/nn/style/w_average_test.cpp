// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "nn/style/styles.h"
#include "support/tensor_checks.h"

using namespace gantrain;

TEST_CASE("TheAverageOfWFollowsItsMean") {
  at::Tensor average = torch::zeros({3});
  const at::Tensor mean = torch::tensor({1.f, 2.f, 3.f}).requires_grad_(true);
  move_w_average_(average, mean, 0.75);
  CHECK(torch::allclose(average, mean / 4));
  for (int i = 0; i < 60; ++i) move_w_average_(average, mean, 0.75);
  CHECK(torch::allclose(average, mean.detach()));
  CHECK_FALSE(average.requires_grad());
}

TEST_CASE("SharesOfMicroBatchesAddUpToTheMeanOfTheBatch") {
  const at::Tensor w = torch::randn({6, 3}, at::kDouble).requires_grad_(true);
  const at::Tensor sum = sum_of_w(w.slice(0, 0, 6, 2)) + sum_of_w(w.slice(0, 1, 6, 2));
  CHECK_FALSE(sum.requires_grad());
  CHECK(scaled_error(mean_of_w(sum), w.detach().mean(0)) < 1e-12);
}
