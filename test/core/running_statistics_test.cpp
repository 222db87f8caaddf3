// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "core/tensors.h"
#include "core/torch.h"
#include "support/catch.h"

using namespace gantrain;

TEST_CASE("SeveralForwardsMoveOneCopyInTurnAndApplyWritesItBack") {
  const at::Tensor buffer = torch::full({2}, 1.0F);
  RunningStatistics moved;
  CHECK(moved.empty());
  moved.next(buffer).add_(2);
  moved.next(buffer).mul_(3);
  CHECK_FALSE(moved.empty());
  CHECK(torch::equal(buffer, torch::full({2}, 1.0F)));
  moved.apply();
  CHECK(torch::equal(buffer, torch::full({2}, 9.0F)));
  moved.apply();  // a value: the same again
  CHECK(torch::equal(buffer, torch::full({2}, 9.0F)));
}

TEST_CASE("EveryBufferHasItsOwn") {
  const at::Tensor a = torch::zeros({1}), b = torch::zeros({1}, at::kLong);
  RunningStatistics moved;
  moved.next(a).fill_(4);
  moved.next(b).fill_(5);
  moved.next(a).add_(1);
  moved.apply();
  CHECK(a.item<float>() == 5);
  CHECK(b.item<int64_t>() == 5);
}

TEST_CASE("WhatSeveralHaveNotedIsAppliedTogetherButABufferIsInOneAlone") {
  const at::Tensor a = torch::zeros({1}), b = torch::zeros({1});
  RunningStatistics first, second;
  first.next(a).fill_(1);
  second.next(b).fill_(2);
  first.add(second);
  first.apply();
  CHECK(a.item<float>() == 1);
  CHECK(b.item<float>() == 2);
  CHECK_THROWS(first.add(second));
}

TEST_CASE("ScopesNestAndAreOfOneThread") {
  CHECK(noted_running_statistics() == nullptr);
  RunningStatistics outer, inner;
  {
    const RunningStatisticsScope of_outer(outer);
    CHECK(noted_running_statistics() == &outer);
    {
      const RunningStatisticsScope of_inner(inner);
      CHECK(noted_running_statistics() == &inner);
    }
    CHECK(noted_running_statistics() == &outer);
    RunningStatistics* elsewhere = &outer;
    std::thread([&] { elsewhere = noted_running_statistics(); }).join();
    CHECK(elsewhere == nullptr);
  }
  CHECK(noted_running_statistics() == nullptr);
}
