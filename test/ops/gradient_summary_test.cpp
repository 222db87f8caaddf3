// SPDX-License-Identifier: Apache-2.0
#include "ops/gradient_summary.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>

using namespace gantrain;

namespace {

std::vector<at::Tensor> gradients() {
  torch::manual_seed(1);
  return {
      torch::randn({300, 257}), torch::randn({5}) * 1e3, torch::zeros({0}), torch::randn({70000})};
}

}  // namespace

TEST_CASE("OneReadingTellsTheNormAndWhetherAllIsFinite") {
  std::vector<at::Tensor> all = gradients();
  double squares = 0;
  for (const at::Tensor& g : all) squares += g.to(at::kDouble).square().sum().item<double>();
  const auto summary = summarise(all, true);
  REQUIRE(summary);
  CHECK(summary->finite);
  CHECK(summary->norm.value() == Approx(std::sqrt(squares)).epsilon(1e-12));
  CHECK_FALSE(summarise(all, false)->norm);
  for (const double bad : {NAN, -INFINITY}) {
    for (const size_t tensor : {0, 1, 3}) {
      CAPTURE(bad, tensor);
      all = gradients();
      all[tensor].view(-1)[-1] = bad;
      CHECK_FALSE(summarise(all, false)->finite);
      CHECK_FALSE(summarise(all, true)->finite);
    }
  }
}

TEST_CASE("NoBitOfTheNormDependsOnTheNumberOfThreads") {
  const std::vector<at::Tensor> all = gradients();
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const double one = summarise(all, true)->norm.value();
  for (const int threads : {2, 3}) {
    at::set_num_threads(threads);
    CHECK(summarise(all, true)->norm.value() == one);
  }
  at::set_num_threads(before);
}

TEST_CASE("NumbersThatItCannotReadAreNotSummarised") {
  CHECK_FALSE(summarise({torch::ones({3}), torch::ones({3}, at::kDouble)}, true));
  CHECK(summarise({}, true)->finite);
  CHECK(summarise({}, true)->norm == 0.0);
}
