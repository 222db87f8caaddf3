// SPDX-License-Identifier: Apache-2.0
#include "train/step/training_step.h"

#include "support/catch.h"
#include "support/step_setup.h"
#include "support/tensor_checks.h"
#include "train/step/run_ranks.h"
#include "train/step/sync_recipes.h"
#include "train/step/toy_recipe.h"

using namespace gantrain;

namespace {

struct Run {
  const char* mode = "dynamic";
  int64_t accumulate = 1;
  const char* optimizer = "sgd";
  const char* dtype = "float32";
  int64_t iterations = 20;
};

// Trains the toy for some iterations and returns all its weights.
NamedTensors train_toy(const Rendezvous& r, const Run& run) {
  StepOnCpu step(toy_row(),
                 toy_config({{"G.optimizer", run.optimizer},
                             {"D.optimizer", run.optimizer},
                             {"dist.ddp_mode", run.mode},
                             {"train.accumulate", run.accumulate},
                             {"train.dtype", run.dtype},
                             {"train.uneven", true}}),
                 r);
  for (int64_t i = 0; i < run.iterations; ++i) step.run(toy_pictures(8, i), i);
  NamedTensors all;
  for (const PlayerState& p : step->players()) {
    for (const auto& [name, t] : p.parameters)
      all.emplace_back(p.player->name + "." + name, t.detach().clone());
  }
  return all;
}

TensorsByName result_of(int64_t world, const Run& run) {
  return result_of_ranks(world, [&](const Rendezvous& r) { return train_toy(r, run); });
}

}  // namespace

TEST_CASE("TwoRanksAreTwoAccumulatedMicroBatchesBitForBit") {
  for (const char* optimizer : {"sgd", "adam"}) {
    const TensorsByName expected = result_of(1, {"dynamic", 2, optimizer});
    for (const char* mode : {"wrapper", "dynamic", "flat"}) {
      CAPTURE(optimizer, mode);
      check_same_bits(result_of(2, {mode, 1, optimizer}), expected);
    }
  }
}

TEST_CASE("FourRanksAreOneUndividedBatchInFloat64") {
  for (const char* optimizer : {"sgd", "adam"}) {
    const auto start = result_of(1, {"dynamic", 1, optimizer, "float64", 0});
    const auto expected = result_of(1, {"dynamic", 1, optimizer, "float64"});
    const auto got = result_of(4, {"dynamic", 1, optimizer, "float64"});
    for (const auto& [name, tensor] : expected) {
      CAPTURE(name, optimizer);
      CHECK(tensor.scalar_type() == at::kDouble);
      const double moved = (tensor - start.at(name)).abs().max().item<double>();
      CHECK(moved > 0);
      CHECK((got.at(name) - tensor).abs().max().item<double>() <= 1e-10 * moved);
    }
  }
}

TEST_CASE("UnequalSharesAreOneUndividedBatchInFloat64") {
  for (const auto& [world, accumulate] : {std::pair<int64_t, int64_t>{3, 1}, {5, 1}, {3, 2}}) {
    const auto start = result_of(1, {"dynamic", 1, "adam", "float64", 0});
    const auto expected = result_of(1, {"dynamic", 1, "adam", "float64"});
    for (const char* mode : {"dynamic", "flat"}) {
      const auto got = result_of(world, {mode, accumulate, "adam", "float64"});
      for (const auto& [name, tensor] : expected) {
        CAPTURE(name, world, mode);
        const double moved = (tensor - start.at(name)).abs().max().item<double>();
        CHECK((got.at(name) - tensor).abs().max().item<double>() <= 1e-10 * moved);
      }
    }
  }
}

TEST_CASE("AMicroBatchIsItsStrideOfTheGlobalBatch") {
  const at::Tensor global = torch::arange(24).reshape({24, 1});
  const BatchPlan plan{24, 2, 4, 3};
  for (int64_t rank = 0; rank < 2; ++rank) {
    const at::Tensor mine = global.slice(0, rank, std::nullopt, 2);
    for (int64_t k = 0; k < 3; ++k) {
      const Samples samples = micro_batch_samples(plan, rank, k);
      const at::Tensor micro = mine.slice(0, k, std::nullopt, 3);
      REQUIRE(micro.size(0) == samples.count);
      for (int64_t i = 0; i < samples.count; ++i)
        CHECK(micro[i].item<int64_t>() == samples.first + i * samples.stride);
    }
  }
}

TEST_CASE("AMicroBatchHasThePicturesAndTheDrawsOfItsSamples") {
  // Sums over a micro-batch's pictures and draws tell which ones it had.
  const auto scores = [](int64_t accumulate) {
    StepOnCpu step(toy_row(), toy_config({{"train.accumulate", accumulate}}));
    std::vector<at::Tensor> seen;
    const StepReport report = step.run(toy_pictures(8, 0), 0);
    for (const auto& [name, values] : report.phases[0].statistics) seen.push_back(values);
    return seen;
  };
  const at::Tensor whole = scores(1).at(0);
  const std::vector<at::Tensor> parts = scores(4);
  REQUIRE(parts.size() == 4);
  for (int64_t k = 0; k < 4; ++k) {
    CHECK(torch::allclose(parts[static_cast<size_t>(k)], whole.slice(0, k, std::nullopt, 4)));
  }
}

TEST_CASE("APhaseRunsAtItsIntervalAlone") {
  StepOnCpu step(toy_row(), toy_config());
  std::string order;
  for (int64_t i = 0; i < 4; ++i) {
    for (const PhaseReport& phase : step.run(toy_pictures(8, i), i).phases) {
      order += phase.phase->name;
      CHECK(phase.losses.size() == 1);
    }
  }
  CHECK(order == "DGDDGD");
}

TEST_CASE("AStepSaysWhatItDoes") {
  const Config config = toy_config();
  const RecipeRow row = toy_row();
  std::string done;
  TrainingStep step({config,
                     row,
                     Group::join({}, BackendKind::kGloo, at::kCPU, 20),
                     at::kCPU,
                     {8, 8},
                     3,
                     {},
                     [&](const std::string& what) { done += what + "; "; }});
  step.run({toy_pictures(8, 0), {}}, {});
  CHECK(done ==
        "D forward; D backward; D step; G forward; G backward; G step; shared statistics; ");
}

TEST_CASE("TheAverageFollowsTheWeightsAndCopiesTheirBuffers") {
  StepOnCpu step(toy_row(), toy_config({{"ema.half_life", 0.008}, {"ema.rampup", 0}}));
  TensorsByName before;
  for (const auto& [name, tensor] : step.state()) before[name] = tensor;
  step.run(toy_pictures(8, 0), 0);
  TensorsByName after;
  for (const auto& [name, tensor] : step.state()) after[name] = tensor;
  const at::Tensor halfway = (before.at("G_ema/weight") + after.at("G/weight")) / 2;
  CHECK_FALSE(torch::equal(after.at("G/weight"), before.at("G/weight")));
  CHECK(torch::allclose(after.at("G_ema/weight"), halfway, 1e-6, 1e-7));
  CHECK(after.at("G/running_mean").abs().min().item<float>() > 0);
  CHECK(torch::equal(after.at("G_ema/running_mean"), after.at("G/running_mean")));
}

TEST_CASE("TheStateSaysWhatEachTensorIs") {
  StepOnCpu step(toy_row(), toy_config({{"G.optimizer", "adam"}}));
  std::map<std::string, StateKind> kinds;
  for (const StateTensor& item : step->state()) kinds[item.name] = item.kind;
  const std::map<std::string, StateKind> expected = {
      {"G/weight", StateKind::kParameter},
      {"G/running_mean", StateKind::kRunningStatistic},
      {"G.opt/exp_avg/weight", StateKind::kOptimizer},
      {"G.opt/exp_avg_sq/weight", StateKind::kOptimizer},
      {"G.opt/step/weight", StateKind::kOptimizer},
      {"G.amp/scale", StateKind::kOptimizer},
      {"G.amp/growth_tracker", StateKind::kOptimizer},
      {"G.amp/skipped", StateKind::kOptimizer},
      {"G.amp/in_a_row", StateKind::kOptimizer},
      {"D/weight", StateKind::kParameter},
      {"D/bias", StateKind::kParameter},
      {"D.amp/scale", StateKind::kOptimizer},
      {"D.amp/growth_tracker", StateKind::kOptimizer},
      {"D.amp/skipped", StateKind::kOptimizer},
      {"D.amp/in_a_row", StateKind::kOptimizer},
      {"G_ema/weight", StateKind::kParameter},
      {"G_ema/running_mean", StateKind::kRunningStatistic},
      {"recipe/mean_z", StateKind::kRecipe}};
  CHECK(kinds.size() == expected.size());
  for (const auto& [name, kind] : expected) {
    CAPTURE(name);
    CHECK(static_cast<int>(kinds.at(name)) == static_cast<int>(kind));
  }
}
