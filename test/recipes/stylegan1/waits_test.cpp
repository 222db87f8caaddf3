// SPDX-License-Identifier: Apache-2.0
// Training steps that never wait for the device, and train as those do that may.
#include <catch2/catch.hpp>

#include "recipes/stylegan1/options.h"
#include "recipes/stylegan1/recipe.h"
#include "support/step_checks.h"

using namespace gantrain;

namespace {

using Changes = std::map<std::string, Json>;

// Pictures of up to 8 pixels, batch 8: stages of 4 pixels, of 8 that fade in, and of 8.
StepCase one(const std::string& name,
             int64_t stage,
             const Changes& changes,
             const std::vector<int64_t>& class_counts = {}) {
  StepCase tiny{name,
                {{"data.resolution", 8},
                 {"train.batch", 8},
                 {"stylegan1.latent_size", 8},
                 {"stylegan1.dlatent_size", 8},
                 {"stylegan1.mapping_fmaps", 8},
                 {"stylegan1.mapping_layers", 2},
                 {"stylegan1.fmap_base", 32},
                 {"stylegan1.fmap_max", 8},
                 {"schedule.start", 4},
                 {"schedule.fade_kimg", 1},
                 {"schedule.stable_kimg", 1},
                 {"schedule.batch", "8"},
                 {"schedule.lr_factor", "1"}},
                class_counts,
                stage};
  for (const auto& [key, value] : changes) tiny.changes[key] = value;
  return tiny;
}

std::vector<StepCase> cases() {
  return {one("fading", 1, {}),
          one("stable, labels", 2, {{"stylegan1.r2_gamma", 1}}, {3, 5}),
          one("wgan-gp", 2, {{"stylegan1.loss", "wgan-gp"}})};
}

}  // namespace

TEST_CASE("NothingWaitsInWrapperMode") {
  check_nothing_waits(stylegan1::row(), cases(), "wrapper", all_amp());
}

TEST_CASE("NothingWaitsInDynamicMode") {
  check_nothing_waits(stylegan1::row(), cases(), "dynamic", all_amp());
}

TEST_CASE("NothingWaitsInFlatMode") {
  check_nothing_waits(stylegan1::row(), cases(), "flat", all_amp());
}

// Without mixing, and outside fades, both ways add up the same numbers.
TEST_CASE("WaitingChangesNothing") {
  for (StepCase each : cases()) {
    if (each.name == "fading") continue;
    each.changes["stylegan1.mixing"] = 0;
    check_waiting_changes_nothing(stylegan1::row(), each, 0);
  }
}

TEST_CASE("WaitingChangesNoMoreThanRoundingInFadesAndWhereStylesAreMixed") {
  for (StepCase each : cases()) {
    each.changes["G.optimizer"] = each.changes["D.optimizer"] = "sgd";
    check_waiting_changes_nothing(stylegan1::row(), each, 1e-5);
  }
}

TEST_CASE("GraphsChangeNothingOnTwoRanks") {
  check_graphs_change_nothing(stylegan1::row(), cases().front(), all_amp(), 2, 8);
}

TEST_CASE("GraphsChangeNothing") {
  for (const StepCase& each : cases())
    check_graphs_change_nothing(stylegan1::row(), each, all_amp(), 1, 8);
}
