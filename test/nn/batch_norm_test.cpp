// SPDX-License-Identifier: Apache-2.0
#include "nn/batch_norm.h"

#include <catch2/catch.hpp>

#include "tensor_checks.h"

using namespace gantrain;

TEST_CASE("BatchNormIsTorchsOwn") {
  BatchNorm2d mine(3);
  torch::nn::BatchNorm2d theirs(3);
  for (int step = 0; step < 3; ++step) {
    const at::Tensor x = torch::randn({4, 3, 5, 5}) * 2 + 1;
    CHECK(scaled_error(mine.forward(x), theirs->forward(x)) < 1e-6);
  }
  CHECK(scaled_error(mine.running_mean, theirs->running_mean) < 1e-6);
  CHECK(scaled_error(mine.running_var, theirs->running_var) < 1e-6);
  CHECK(mine.num_batches_tracked.item<int64_t>() == 3);
  mine.eval();
  theirs->eval();
  const at::Tensor x = torch::randn({4, 3, 5, 5});
  CHECK(scaled_error(mine.forward(x), theirs->forward(x)) < 1e-6);
}

TEST_CASE("WithoutTrackingNormalisesByTheBatchAndLeavesTheStatistics") {
  auto norm = std::make_shared<BatchNorm2d>(3);
  torch::nn::Module parent;
  parent.register_module("norm", norm);
  const at::Tensor x = torch::randn({4, 3, 5, 5}) + 7;
  at::Tensor y;
  {
    const WithoutTracking guard(parent);
    y = norm->forward(x);
  }
  CHECK(norm->num_batches_tracked.item<int64_t>() == 0);
  CHECK(norm->running_mean.abs().max().item<float>() == 0);
  CHECK(std::abs(y.mean().item<float>()) < 1e-5);
  CHECK(torch::equal(y, norm->forward(x)));  // tracking is on again
  CHECK(norm->num_batches_tracked.item<int64_t>() == 1);
}
