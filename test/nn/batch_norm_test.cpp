// SPDX-License-Identifier: Apache-2.0
#include <torch/nn/modules/batchnorm.h>

#include "core/tensors.h"
#include "nn/normalisation.h"
#include "support/catch.h"
#include "support/tensor_checks.h"

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

TEST_CASE("StatisticsThatAreNotedAreThoseTrackedAtOnce") {
  BatchNorm2d norm(3), at_once(3);
  const at::Tensor x = torch::randn({4, 3, 5, 5}) + 7;
  RunningStatistics noted;
  for (int step = 0; step < 2; ++step) {
    const RunningStatisticsScope scope(noted);
    const at::Tensor y = norm.forward(x * (step + 1));
    CHECK(std::abs(y.mean().item<float>()) < 1e-5);
  }
  CHECK(norm.num_batches_tracked.item<int64_t>() == 0);
  CHECK(norm.running_mean.abs().max().item<float>() == 0);
  CHECK(norm.running_var.min().item<float>() == 1);
  noted.apply();
  at_once.forward(x);
  at_once.forward(x * 2);
  CHECK(torch::equal(norm.running_mean, at_once.running_mean));
  CHECK(torch::equal(norm.running_var, at_once.running_var));
  CHECK(norm.num_batches_tracked.item<int64_t>() == 2);
  norm.forward(x);  // without a scope at once again
  CHECK(norm.num_batches_tracked.item<int64_t>() == 3);
}

TEST_CASE("ANotedForwardLeavesNothingBehindAndCanBeRepeated") {
  for (const bool over_ranks : {false, true}) {
    CAPTURE(over_ranks);
    BatchNorm2d norm(3);
    if (over_ranks) norm.sum_over_ranks = [](const at::Tensor& t) { return t; };
    const at::Tensor x = torch::randn({4, 3, 5, 5});
    RunningStatistics first, second;
    const auto forward = [&](RunningStatistics& into) {
      const RunningStatisticsScope scope(into);
      return norm.forward(x);
    };
    CHECK(torch::equal(forward(first), forward(second)));
    CHECK(torch::equal(first.next(norm.running_mean), second.next(norm.running_mean)));
    CHECK(torch::equal(first.next(norm.running_var), second.next(norm.running_var)));
    CHECK(first.next(norm.num_batches_tracked).item<int64_t>() == 1);
    CHECK(norm.running_mean.abs().max().item<float>() == 0);
    CHECK(norm.num_batches_tracked.item<int64_t>() == 0);
  }
}

TEST_CASE("RunningStatisticsAreToldFromConstants") {
  torch::nn::Module parent;
  parent.register_module("norm", std::make_shared<BatchNorm2d>(3));
  std::map<std::string, StateKind> kinds;
  for (const StateTensor& item : state_with_kinds(parent)) kinds[item.name] = item.kind;
  const std::map<std::string, StateKind> expected = {
      {"norm.weight", StateKind::kParameter},
      {"norm.bias", StateKind::kParameter},
      {"norm.running_mean", StateKind::kRunningStatistic},
      {"norm.running_var", StateKind::kRunningStatistic},
      {"norm.num_batches_tracked", StateKind::kConstant}};
  CHECK((kinds == expected));
}

namespace {

// Everything a loss with a penalty on its input's gradient gives, in float64.
std::vector<at::Tensor> gradients_through(BatchNorm2d& norm, const at::Tensor& data) {
  at::Tensor x = data.detach().clone().requires_grad_(true);
  const at::Tensor y = norm.forward(x).sin();
  const at::Tensor first = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
  const at::Tensor loss = (y * y.detach().cos()).sum() + first.square().sum();
  const auto grads = torch::autograd::grad({loss}, {x, norm.weight, norm.bias});
  return {y, grads[0], grads[1], grads[2], norm.running_mean, norm.running_var};
}

}  // namespace

TEST_CASE("BatchNormOverRanksIsThatOfTheSamples") {
  BatchNorm2d alone(3), shared(3);
  for (BatchNorm2d* norm : {&alone, &shared}) {
    for (at::Tensor& t : norm->parameters()) t.set_data(t.to(at::kDouble));
    for (at::Tensor* t : {&norm->running_mean, &norm->running_var}) t->set_data(t->to(at::kDouble));
  }
  shared.sum_over_ranks = [](const at::Tensor& sum) { return sum; };  // of one rank
  const at::Tensor x = torch::randn({4, 3, 5, 5}, at::kDouble) * 2 + 1;
  const auto expected = gradients_through(alone, x), got = gradients_through(shared, x);
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(scaled_error(got[i], expected[i]) < 1e-12);
  }
  // Two ranks that hold the same samples: the batch twice has the same mean and variance.
  BatchNorm2d twice(3);
  for (at::Tensor& t : twice.parameters()) t.set_data(t.to(at::kDouble));
  for (at::Tensor* t : {&twice.running_mean, &twice.running_var}) t->set_data(t->to(at::kDouble));
  twice.sum_over_ranks = [](const at::Tensor& sum) { return 2 * sum; };
  twice.ranks = 2;
  CHECK(scaled_error(twice.forward(x), shared.forward(x)) < 1e-12);
  const double unbiased = 99.0 / 100.0 * 200.0 / 199.0;  // of 100 samples, and of 200
  CHECK(scaled_error((twice.running_var - 0.9) / unbiased, (alone.running_var - 0.9)) < 1e-12);
}

// 20000 + {-16, 0, 16}: float16 holds the numbers, but no sum of them and no square.
TEST_CASE("StatisticsOfHalfPrecisionAreTakenInFloat32") {
  const at::Tensor wide =
      20000 +
      16 * (torch::arange(4 * 3 * 8 * 8, at::kFloat).remainder(3) - 1).reshape({4, 3, 8, 8});
  const at::Tensor x = wide.to(at::kHalf);
  for (const bool over_ranks : {false, true}) {
    BatchNorm2d norm(3), exact(3);
    if (over_ranks) norm.sum_over_ranks = [](const at::Tensor& t) { return t; };
    const at::Tensor y = norm.forward(x);
    CAPTURE(over_ranks);
    CHECK(y.scalar_type() == at::kHalf);
    CHECK(scaled_error(y, exact.forward(wide)) < 2e-3);
    CHECK(norm.running_mean.scalar_type() == at::kFloat);
    CHECK(scaled_error(norm.running_mean, exact.running_mean) < 1e-6);
    CHECK(scaled_error(norm.running_var, exact.running_var) < 1e-3);
  }
}
