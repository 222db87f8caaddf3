// SPDX-License-Identifier: Apache-2.0
#include "gan/phase.h"

#include <catch2/catch.hpp>

#include "core/torch.h"

using namespace gantrain;

TEST_CASE("APhaseIsDueAtOneIterationOfItsIntervalFromItsFirstOn") {
  std::vector<int64_t> due;
  for (int64_t i = 0; i < 12; ++i) {
    if (Cadence{4, 2}.is_due(i)) due.push_back(i);
  }
  CHECK(due == std::vector<int64_t>{2, 6, 10});
  CHECK(Cadence{}.is_due(0));
  CHECK(Cadence{}.is_due(7));
}

namespace {

// A forward pass that moves a running statistic, wherever that is noted.
at::Tensor forward(at::Tensor buffer, double by) {
  RunningStatistics* noted = noted_running_statistics();
  (noted == nullptr ? buffer : noted->next(buffer)).add_(by);
  return torch::tensor(by);
}

}  // namespace

TEST_CASE("RunningStatisticsComeOutAsAValueAndStayOutOfTheirBuffers") {
  Player player{"D", nullptr, {}};
  const at::Tensor buffer = torch::zeros({2});
  const Phase phase{"D", player, [&](const PhaseInput&) {
                      forward(buffer, 1);
                      return PhaseOutput{forward(buffer, 2)};  // the second goes on from the first
                    }};
  const PhaseOutput once = phase.run({}), again = phase.run({});
  CHECK(torch::equal(buffer, torch::zeros({2})));
  once.running.apply();
  CHECK(torch::equal(buffer, torch::full({2}, 3.0F)));
  again.running.apply();  // both began with what was in the buffer then
  CHECK(torch::equal(buffer, torch::full({2}, 3.0F)));
  CHECK(noted_running_statistics() == nullptr);
}

TEST_CASE("WhatWasHandedOverIsAccountedForWithWhatThePhaseItselfMoves") {
  Player player{"G", nullptr, {}};
  const at::Tensor of_G = torch::zeros({1}), of_D = torch::zeros({1});
  const Phase D{"D", player, [&](const PhaseInput&) {
                  PhaseOutput out;
                  {
                    const RunningStatisticsScope scope(out.carried.running);
                    forward(of_G, 5);
                  }
                  out.loss = forward(of_D, 1);
                  return out;
                }};
  const Phase G{"G", player, [&](const PhaseInput& in) {
                  PhaseOutput out;
                  out.running = in.carried.running;
                  out.loss = forward(of_D, 2);
                  return out;
                }};
  const PhaseOutput judged = D.run({});
  judged.running.apply();
  CHECK(of_G.item<float>() == 0);
  CHECK(of_D.item<float>() == 1);
  PhaseInput in;
  in.carried = judged.carried;
  G.run(in).running.apply();
  CHECK(of_G.item<float>() == 5);
  CHECK(of_D.item<float>() == 3);
}

TEST_CASE("ALossThatThrowsLeavesNoScopeBehind") {
  Player player{"D", nullptr, {}};
  const Phase phase{
      "D", player, [](const PhaseInput&) -> PhaseOutput { throw std::runtime_error("no loss"); }};
  CHECK_THROWS_WITH(phase.run({}), "no loss");
  CHECK(noted_running_statistics() == nullptr);
}
