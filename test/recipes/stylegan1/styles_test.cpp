// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan1/styles.h"

#include <catch2/catch.hpp>

#include "tensor_checks.h"

using namespace gantrain;
namespace sg = gantrain::stylegan1;

TEST_CASE("EachDoublingHasTwoLayers") {
  CHECK(sg::layers_at(4) == 2);
  CHECK(sg::layers_at(8) == 4);
  CHECK(sg::layers_at(1024) == 18);
}

TEST_CASE("TruncationMovesTheFirstLayersTowardsTheAverage") {
  const at::Tensor ws = torch::randn({2, 6, 3}), average = torch::randn({3});
  CHECK(torch::equal(sg::truncated(ws, average, 1, 3), ws));
  CHECK(torch::allclose(sg::truncated(ws, average, 0, std::nullopt), average.expand_as(ws)));
  const at::Tensor half = sg::truncated(ws, average, 0.5, 2);
  CHECK(torch::allclose(half.narrow(1, 0, 2), (ws.narrow(1, 0, 2) + average) / 2));
  CHECK(torch::equal(half.narrow(1, 2, 4), ws.narrow(1, 2, 4)));
  CHECK(torch::equal(sg::truncated(ws, average, 0.5, 0), ws));
  CHECK(torch::equal(sg::truncated(ws, average, 0.5, 99),
                     sg::truncated(ws, average, 0.5, std::nullopt)));
}

TEST_CASE("MixingTakesTheLaterLayersFromTheOther") {
  const at::Tensor a = torch::zeros({2, 4, 3}), b = torch::ones({2, 4, 3});
  CHECK(sg::mix_styles(a, b, 1)[0].select(1, 0).equal(torch::tensor({0.f, 1.f, 1.f, 1.f})));
  CHECK(torch::equal(sg::mix_styles(a, b, 4), a));
  CHECK(torch::equal(sg::mix_styles(a, b, 0), b));
}

TEST_CASE("TheAverageOfWFollowsItsMean") {
  at::Tensor average = torch::zeros({3});
  const at::Tensor mean = torch::tensor({1.f, 2.f, 3.f}).requires_grad_(true);
  sg::move_average_(average, mean, 0.75);
  CHECK(torch::allclose(average, mean / 4));
  for (int i = 0; i < 60; ++i) sg::move_average_(average, mean, 0.75);
  CHECK(torch::allclose(average, mean.detach()));
  CHECK_FALSE(average.requires_grad());
}
