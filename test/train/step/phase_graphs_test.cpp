// SPDX-License-Identifier: Apache-2.0
#include "core/device.h"
#include "core/torch.h"
#include "ops/bias_act/bias_act.h"
#include "support/catch.h"
#include "support/tape_graphs.h"
#include "train/step/toys.h"
#include "train/step/training_step.h"
#include "util/error.h"
#include "util/log.h"

using namespace gantrain;
using at::Tensor;

namespace {

// loss = sum(w * x), w = [2, 3]; counts its calls.
struct Weighted {
  Tensor w = torch::tensor({2.F, 3.F}).requires_grad_();
  NamedTensors parameters{{"w", w}};
  int64_t calls = 0;

  PhaseComputed operator()(const Batch& in) {
    ++calls;
    w.mutable_grad() = Tensor();
    const Tensor loss = (in.real * w).sum();
    loss.backward();
    return {{loss.detach()}, {{"Loss/x", in.real.sum(0)}}, {{"sum", in.real.sum()}}};
  }
};

Batch input(int64_t rows, double value) { return {torch::full({rows, 2}, value), {}}; }

PhaseComputed run(PhaseGraphs& graphs, Weighted& weighted, const Batch& in) {
  return graphs.compute(
      {"D", "", weighted.parameters}, in, [&](const auto& given) { return weighted(given); });
}

}  // namespace

TEST_CASE("APhaseIsReplayedWithNewInputsAndItsResultsStay") {
  const TapeGraphs tapes;
  PhaseGraphs graphs(at::kCPU, Graphs::kOn);
  Weighted weighted;
  std::vector<PhaseComputed> all;
  for (int i = 0; i < 8; ++i) {
    all.push_back(run(graphs, weighted, input(3, i)));
    CHECK(weighted.w.grad().equal(torch::full({2}, 3.F * static_cast<float>(i))));
  }
  for (int i = 0; i < 8; ++i) {
    CAPTURE(i);
    CHECK(all[static_cast<size_t>(i)].losses.front().item<double>() == 15 * i);
    CHECK(all[static_cast<size_t>(i)].statistics.front().second[0].item<double>() == 3 * i);
    CHECK(all[static_cast<size_t>(i)].sums.front().second.item<double>() == 6 * i);
  }
  CHECK(weighted.calls == 4);  // three as it is, one to record
  CHECK(TapeGraphs::replayed() == 5);
}

TEST_CASE("AnotherShapeIsRecordedAnew") {
  const TapeGraphs tapes;
  PhaseGraphs graphs(at::kCPU, Graphs::kOn);
  Weighted weighted;
  for (int i = 0; i < 6; ++i) run(graphs, weighted, input(3, i));
  for (int i = 0; i < 6; ++i)
    CHECK(run(graphs, weighted, input(5, i)).losses.front().item<double>() == 25 * i);
  CHECK(TapeGraphs::recorded() == 2);
}

TEST_CASE("WhatIsForgottenIsRecordedAnew") {
  const TapeGraphs tapes;
  PhaseGraphs graphs(at::kCPU, Graphs::kOn);
  Weighted weighted;
  for (int i = 0; i < 6; ++i) run(graphs, weighted, input(3, i));
  graphs.clear();
  CHECK(graphs.way("D", input(3, 1)) == PhaseGraphs::Way::kPlain);
  for (int i = 0; i < 6; ++i) run(graphs, weighted, input(3, i));
  CHECK(TapeGraphs::recorded() == 2);
}

TEST_CASE("APhaseThatReadsTheDeviceRunsAsItIs") {
  const TapeGraphs tapes;
  Weighted weighted;
  const PhaseGraphs::Compute reads = [&](const Batch& in) {
    PhaseComputed all = weighted(in);
    all.losses.front() = all.losses.front() * all.losses.front().item<double>();
    return all;
  };
  PhaseGraphs graphs(at::kCPU, Graphs::kAuto);
  set_log({Level::kError, Level::kError, {}, ""});
  for (int i = 0; i < 6; ++i) {
    const PhaseComputed got = graphs.compute({"D", "", weighted.parameters}, input(1, i), reads);
    CHECK(got.losses.front().item<double>() == 25 * i * i);
  }
  CHECK(TapeGraphs::recorded() == 0);

  PhaseGraphs demanded(at::kCPU, Graphs::kOn);
  const auto until_recorded = [&] {
    for (int i = 0; i < 6; ++i)
      demanded.compute({"D", "", weighted.parameters}, input(1, i), reads);
  };
  CHECK_THROWS_AS(until_recorded(), UserError);
}

// The instrument of the tests that compare whole trainings: a host's number shows.
TEST_CASE("ANumberOfTheHostStaysAsItWasRecorded") {
  const TapeGraphs tapes;
  PhaseGraphs graphs(at::kCPU, Graphs::kOn);
  Weighted weighted;
  double factor = 0;
  for (int i = 0; i < 6; ++i) {
    factor = i;
    const PhaseComputed got =
        graphs.compute({"D", "", weighted.parameters}, input(1, 1), [&](const auto& in) {
          PhaseComputed all = weighted(in);
          all.losses.front() = all.losses.front() * factor;
          return all;
        });
    CHECK(got.losses.front().item<double>() == 5 * std::min(i, 3));
  }
}

// The same where the host's number is an argument of a kernel that LibTorch does not know.
TEST_CASE("AKernelsNumberStaysAsItWasRecordedAndItsTensorsDoNot") {
  const TapeGraphs tapes;
  PhaseGraphs graphs(at::kCPU, Graphs::kOn);
  Weighted weighted;
  double gain = 0;
  for (int i = 0; i < 6; ++i) {
    gain = i + 1;
    const PhaseComputed got =
        graphs.compute({"D", "", weighted.parameters}, input(1, i), [&](const auto& in) {
          PhaseComputed all = weighted(in);
          const BiasAct how{Activation::kLrelu, 1, 0.2, gain};
          all.losses.front() = bias_act(in.real, torch::ones({2}), how).sum();
          return all;
        });
    CHECK(got.losses.front().item<double>() == (std::min(i, 3) + 1) * 2 * (i + 1));
  }
  CHECK(TapeGraphs::replayed() == 3);
}

TEST_CASE("GraphsAreUsedWhereNothingForbidsThem") {
  struct Row {
    Graphs wanted;
    bool device_records, sync_bn, whole, given;
    int64_t ranks, nodes;
    bool used, said;
  };
  const std::vector<Row> rows = {
      {Graphs::kAuto, true, false, false, false, 1, 1, true, false},
      {Graphs::kAuto, true, false, false, false, 8, 1, true, false},
      {Graphs::kOn, true, false, false, false, 8, 1, true, false},
      {Graphs::kOff, true, false, false, false, 8, 1, false, false},
      {Graphs::kAuto, false, false, false, false, 8, 1, false, false},
      {Graphs::kAuto, true, true, false, false, 8, 1, false, true},
      {Graphs::kAuto, true, true, false, false, 1, 1, true, false},
      {Graphs::kAuto, true, false, true, false, 8, 1, false, true},
      {Graphs::kAuto, true, false, false, false, 16, 2, false, true},
      {Graphs::kOn, true, false, false, false, 16, 2, true, false},
      {Graphs::kAuto, true, false, false, true, 8, 1, false, true},
      {Graphs::kAuto, true, false, false, true, 1, 1, true, false},
      {Graphs::kOn, true, false, false, true, 8, 1, true, false},
  };
  for (const Row& row : rows) {
    DistOptions dist;
    dist.sync_bn = row.sync_bn;
    if (row.whole) dist.ddp_scope = DdpScope::kWhole;
    RankInfo ranks;
    ranks.world = row.ranks;
    ranks.nodes = row.nodes;
    CAPTURE(int(row.wanted), row.device_records, row.sync_bn, row.whole, row.ranks, row.nodes);
    const GraphChoice choice =
        choose_graphs({row.wanted, row.device_records, dist, row.given, ranks});
    CHECK(choice.used == row.used);
    CHECK(choice.why_not.empty() != row.said);
  }
  CHECK_THROWS_AS(choose_graphs({Graphs::kOn, false, DistOptions(), false, RankInfo()}), UserError);
}

namespace {

// The state after training, where recording fails at the n-th operator of a work.
NamedTensors trained(const ToyCase& toy, const char* graphs, int64_t fails_at) {
  const AssumeReadsWait on_a_device;
  const TapeGraphs tapes;
  TapeGraphs::fail_at(fails_at);
  StepOnCpu step(join_on_cpu({}), toy.row, toy.config_with({{"train.graphs", graphs}}));
  for (int64_t i = 0; i < 8; ++i) step.run(toy_pictures(8, i), i);
  return step.state();
}

}  // namespace

// Wanted graphs that lack memory are no wrong usage: the way out is a smaller micro-batch.
TEST_CASE("AWantedGraphThatTheMemoryIsTooSmallForIsNotARefusal") {
  const AssumeReadsWait on_a_device;
  const TapeGraphs tapes;
  TapeGraphs::fail_at(4, /*of_memory=*/true);
  const ToyCase toy = all_toys().front();
  StepOnCpu step(join_on_cpu({}), toy.row, toy.config_with({{"train.graphs", "on"}}));
  const auto train = [&] {
    for (int64_t i = 0; i < 8; ++i) step.run(toy_pictures(8, i), i);
  };
  CHECK_THROWS_AS(train(), c10::OutOfMemoryError);
}

TEST_CASE("WhereRecordingFailsTrainingGoesOnAsWithoutGraphs") {
  set_log({Level::kError, Level::kError, {}, ""});
  for (const ToyCase& toy : all_toys()) {
    const NamedTensors expected = trained(toy, "off", 0);
    for (const int64_t fails_at : {1, 4, 10, 20, 30, 45, 60, 90, 150}) {
      const NamedTensors got = trained(toy, "auto", fails_at);
      REQUIRE(got.size() == expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        CAPTURE(toy.name, fails_at, got[i].first);
        CHECK(got[i].second.equal(expected[i].second));
      }
    }
  }
}
