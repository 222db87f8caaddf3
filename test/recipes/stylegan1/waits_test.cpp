// SPDX-License-Identifier: Apache-2.0
// Training steps that never wait for the device, and train as those do that may.
#include "recipes/stylegan1/official.h"
#include "recipes/stylegan1/recipe.h"
#include "support/catch.h"
#include "support/step_checks.h"

using namespace gantrain;

namespace {

using Changes = std::map<std::string, Json>;

// Pictures of up to 8 pixels, batch 8: stages of 4 pixels, of 8 that fade in, and of 8.
StepCase one(const std::string& name,
             int64_t stage,
             Changes changes,
             const std::vector<int64_t>& class_counts = {}) {
  changes["data.resolution"] = 8;
  return {name, stylegan1::sized({8, 8, 8, 2, 0.01, 32, 1, 8}, changes), class_counts, stage};
}

std::vector<StepCase> cases() {
  return {one("fading", 1, {}),
          one("stable, labels, DiffAugment",
              2,
              {{"stylegan1.r2_gamma", 1}, {"augment.mode", "diff"}},
              {3, 5}),
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
