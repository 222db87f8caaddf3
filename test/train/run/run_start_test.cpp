// SPDX-License-Identifier: Apache-2.0
#include "train/run/run_start.h"

#include "core/device.h"
#include "support/catch.h"
#include "support/step_setup.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"
#include "train/step/run_ranks.h"
#include "train/step/sync_recipes.h"
#include "train/step/toy_recipe.h"
#include "util/error.h"

using namespace gantrain;

namespace {

using Changes = std::map<std::string, Json>;

TensorsByName by_name(const NamedTensors& all) { return {all.begin(), all.end()}; }

// What a run of that configuration begins with in a step that was made for it.
RunStart start_of(const Config& config, const RecipeRow& row, StepOnCpu& step) {
  TrainSetup setup{config, {}, BackendKind::kGloo, at::kCPU, row, "test", "", {}, {}, nullptr};
  return load_or_begin(setup, config.read<RunOptions>(), *step, *step.group());
}

Config toy_in(const std::filesystem::path& folder, Changes changes = {}) {
  changes["run.run_dir"] = folder.string();
  return toy_config(changes);
}

// Leaves the state of a toy that has trained for some iterations.
TensorsByName save_trained(const std::filesystem::path& folder, int64_t iterations) {
  const Config config = toy_in(folder);
  StepOnCpu step(toy_row(), config);
  for (int64_t i = 0; i < iterations; ++i) step.run(toy_pictures(8, i), i);
  save_state(folder / "state-000000.pt", step.state(), {8 * iterations, iterations}, config);
  return by_name(step.state());
}

}  // namespace

TEST_CASE("TheNewestStateOfTheFolderIsGoneOnWith") {
  const TemporaryFolder folder;
  const TensorsByName saved = save_trained(folder.path(), 3);
  const Config config = toy_in(folder.path());
  StepOnCpu step(toy_row(), config);
  const RunStart start = start_of(config, toy_row(), step);
  CHECK(start.resumed);
  CHECK(start.resumed_from == folder / "state-000000.pt");
  CHECK(start.counters.images_seen == 24);
  CHECK(start.counters.iteration == 3);
  check_same_bits(by_name(step.state()), saved);
}

TEST_CASE("ARunMayBeginAnewOrInAnEmptyFolder") {
  const TemporaryFolder folder;
  save_trained(folder.path(), 3);
  for (const Config& config :
       {toy_in(folder.path(), {{"run.resume", "none"}}), toy_in(folder / "empty"), toy_config()}) {
    StepOnCpu step(toy_row(), config);
    const TensorsByName fresh = by_name(step.state());
    const RunStart start = start_of(config, toy_row(), step);
    CHECK_FALSE(start.resumed);
    CHECK(start.counters.images_seen == 0);
    check_same_bits(by_name(step.state()), fresh);
  }
}

TEST_CASE("AStateThatIsAskedForMustBeThere") {
  const TemporaryFolder folder;
  const Config config = toy_config({{"run.resume", folder.path().string()}});
  StepOnCpu step(toy_row(), config);
  CHECK_THROWS_WITH(start_of(config, toy_row(), step),
                    Catch::Contains("holds no state to resume from"));
}

TEST_CASE("AllRanksBeginWithTheWeightsOfRankZero") {
  const auto begun = [](const Rendezvous& r) {
    const Config config = toy_config({{"train.perturb_ranks", true}, {"train.batch", 9}});
    StepOnCpu step(toy_row(), config, r);
    start_of(config, toy_row(), step);
    return step.state();
  };
  const TensorsByName alone = result_of_ranks(1, begun);
  check_same_bits(result_of_ranks(3, begun), alone);
}

TEST_CASE("AStateFromAStageThatTheScheduleDoesNotHaveThenIsRefused") {
  const TemporaryFolder folder;
  const Config config = growing_config({{"run.run_dir", folder.path().string()}});
  StepOnCpu step(growing_row(), config);
  // Stage 2 begins at 2000 images.
  save_state(folder / "state-000001.pt", step.state(), {1500, 10, 0, 0, 2}, config);
  CHECK_THROWS_WITH(
      start_of(config, growing_row(), step),
      Catch::Contains("saved at 1.5 kimg in its stage 3") && Catch::Contains("stage 2 of 3"));
  save_state(folder / "state-000002.pt", step.state(), {1500, 10, 0, 0, 1}, config);
  CHECK(start_of(config, growing_row(), step).counters.stage == 1);
}

TEST_CASE("StepsLeftOutInEarlierSessionsAreNotHeardOfAgain") {
  const AssumeReadsWait assumed;
  const TemporaryFolder folder;
  const Config config = toy_in(folder.path(), {{"train.on_nonfinite", "stop"}});
  {
    StepOnCpu step(toy_row(), config);
    for (auto& [name, tensor] : named(step->state())) {
      if (name == "D.amp/skipped") at::Tensor(tensor).fill_(3);
    }
    save_state(folder / "state-000000.pt", step.state(), {8, 1}, config);
  }
  StepOnCpu step(toy_row(), config);
  CHECK(start_of(config, toy_row(), step).resumed);
  step.run(toy_pictures(8, 1), 1);
  CHECK_NOTHROW(step->settle());
}
