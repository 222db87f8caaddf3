// SPDX-License-Identifier: Apache-2.0
// That a recipe of another shape needs nothing but itself.
#include "train/step/three_networks.h"

#include "support/catch.h"
#include "support/step_setup.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"
#include "train/save/checkpoint.h"
#include "train/step/run_ranks.h"
#include "train/step/toy_recipe.h"

using namespace gantrain;

namespace {

using Changes = std::map<std::string, Json>;

constexpr int64_t kThreeIterations = 20;
// Over 25 iterations of 8 images.
constexpr const char* kRamp = R"({"from": 4, "to": 0.5, "kimg": 0.2, "shape": "cosine"})";

Config three_config_with(Changes changes) {
  changes["three.gamma"] = kRamp;
  return three_networks_config(changes);
}

void iterate(StepOnCpu& step, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; ++i) step.run(toy_pictures(8, i), i);
}

NamedTensors trained_three(const Rendezvous& r, const Changes& changes) {
  StepOnCpu step(three_networks_row(), three_config_with(changes), r);
  iterate(step, 0, kThreeIterations);
  return step.state();
}

// Half of it, a state file, and the rest in a step that was made anew.
NamedTensors resumed(const Rendezvous& r, const Changes& changes) {
  const TemporaryFolder folder;  // each rank has its own
  const Config config = three_config_with(changes);
  const auto group = join_on_cpu(r);
  const int64_t half = kThreeIterations / 2;
  {
    StepOnCpu step(group, three_networks_row(), config);
    iterate(step, 0, half);
    save_state(folder / "state-000000.pt", step.state(), {half * 8, half}, config);
  }
  StepOnCpu step(group, three_networks_row(), config);
  Counters counters;
  load_newest(folder.path(), named(step->state()), counters, config, "");
  step->begin();
  iterate(step, counters.iteration, kThreeIterations);
  return step.state();
}

const Changes kThreeModes[] = {{{"dist.ddp_mode", "wrapper"}},
                               {{"dist.ddp_mode", "dynamic"}},
                               {{"dist.ddp_mode", "flat"}},
                               {{"dist.ddp_scope", "whole"}}};

std::string text_of(const Changes& mode) {
  return mode.begin()->first + "=" + mode.begin()->second.dump();
}

}  // namespace

TEST_CASE("ThreeNetworksTrainTheSameInEveryModeOnOneRankAndTwo") {
  const TensorsByName expected = result_of_ranks(1, [](const Rendezvous& r) {
    return trained_three(r, {{"train.accumulate", 2}});
  });
  const TensorsByName start = result_of_ranks(1, [](const Rendezvous& r) {
    return StepOnCpu(three_networks_row(), three_config_with({}), r).state();
  });
  for (const char* name :
       {"G/weight", "W/weight", "W/bias", "L/head", "L/bias", "G_ema/weight", "recipe/mean_sign"}) {
    CAPTURE(name);
    CHECK_FALSE(torch::equal(expected.at(name), start.at(name)));
  }
  for (const Changes& mode : kThreeModes) {
    CAPTURE(text_of(mode));
    check_same_bits(result_of_ranks(2, [&](const Rendezvous& r) { return trained_three(r, mode); }),
                    expected);
  }
}

TEST_CASE("OneRankGivesTheSameInEveryModeAndWhatAccumulationGives") {
  const auto result_with = [](Changes changes) {
    changes["train.dtype"] = "float64";
    return result_of_ranks(1, [&](const Rendezvous& r) { return trained_three(r, changes); });
  };
  const TensorsByName whole = result_with(kThreeModes[0]);
  for (const Changes& mode : kThreeModes) {
    CAPTURE(text_of(mode));
    check_same_bits(result_with(mode), whole);
  }
  for (const auto& [name, tensor] : result_with({{"train.accumulate", 2}})) {
    CAPTURE(name);
    CHECK(torch::allclose(whole.at(name).to(at::kDouble), tensor.to(at::kDouble), 1e-7, 1e-9));
  }
}

TEST_CASE("ThreeNetworksResumeBitExactInTheMiddleOfARamp") {
  for (const int64_t world : {1, 2}) {
    for (const Changes& mode : kThreeModes) {
      CAPTURE(world, text_of(mode));
      const TensorsByName whole =
          result_of_ranks(world, [&](const Rendezvous& r) { return trained_three(r, mode); });
      check_same_bits(result_of_ranks(world, [&](const Rendezvous& r) { return resumed(r, mode); }),
                      whole);
    }
  }
}

TEST_CASE("ThePenaltyFollowsItsRampExactly") {
  // Nothing moves but gamma.
  Changes still;
  for (const std::string player : {"G", "W", "L"}) still[player + ".adam.lr"] = 0;
  StepOnCpu step(three_networks_row(), three_config_with(still));
  const Scheduled ramp(4, 0.5, Kimg{200}, RampShape::kCosine);
  double of_one = 0;  // the penalty of gamma = 1
  for (int64_t i = 0; i <= 30; i += 2) {
    const StepReport report = step.run({toy_pictures(8, 0), {}, i});
    REQUIRE(report.phases[1].phase->name == "Wreg");
    const double loss = report.phases[1].losses.at(0).item<double>();
    if (i == 0) of_one = loss / 4;
    CAPTURE(i);
    CHECK(loss > 0);
    CHECK(loss == Approx(of_one * ramp.at(8 * i)));
  }
  CHECK(ramp.at(8 * 30) == 0.5);
}

TEST_CASE("WhatEndsAnIterationIsReportedOnce") {
  StepOnCpu step(three_networks_row(), three_config_with({}));
  const StepReport report = step.run(toy_pictures(8, 0), 0);
  REQUIRE(report.statistics.size() == 1);
  CHECK(report.statistics[0].first == "Progress/mean_sign");
  const double sign = report.phases[0].statistics[0].second.sign().mean().item<double>();
  CHECK(report.statistics[0].second.item<double>() == Approx(0.25 * sign));
}
