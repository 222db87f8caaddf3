// SPDX-License-Identifier: Apache-2.0
// Training steps that never wait for the device, and train as those do that may.
#include "recipes/pggan/official.h"
#include "recipes/pggan/recipe.h"
#include "support/catch.h"
#include "support/step_checks.h"

using namespace gantrain;

namespace {

using Changes = std::map<std::string, Json>;

// Pictures of up to 8 pixels, batch 8: stages of 4 pixels, of 8 that fade in, and of 8.
StepCase one(const std::string& name, int64_t stage, Changes changes) {
  changes["data.resolution"] = 8;
  return {name, pggan::sized({8, 32, 1, 8, true}, changes), {}, stage};
}

std::vector<StepCase> cases() {
  return {one("fading", 1, {}),
          one("stable, DiffAugment", 2, {{"pggan.gp_size", "fullres"}, {"augment.mode", "diff"}})};
}

}  // namespace

TEST_CASE("NothingWaitsInWrapperMode") {
  check_nothing_waits(pggan::row(), cases(), "wrapper", all_amp());
}

TEST_CASE("NothingWaitsInDynamicMode") {
  check_nothing_waits(pggan::row(), cases(), "dynamic", all_amp());
}

TEST_CASE("NothingWaitsInFlatMode") {
  check_nothing_waits(pggan::row(), cases(), "flat", all_amp());
}

TEST_CASE("WaitingChangesNothing") {
  check_waiting_changes_nothing(pggan::row(), cases().back(), 0);
}

// A CPU blends with a number, which rounds otherwise than blending with a tensor.
TEST_CASE("WaitingChangesNoMoreThanRoundingInAFade") {
  StepCase fading = cases().front();
  fading.changes["G.optimizer"] = fading.changes["D.optimizer"] = "sgd";
  check_waiting_changes_nothing(pggan::row(), fading, 1e-5);
}

TEST_CASE("GraphsChangeNothingOnTwoRanks") {
  check_graphs_change_nothing(pggan::row(), cases().front(), all_amp(), 2, 8);
}

TEST_CASE("GraphsChangeNothing") {
  for (const StepCase& each : cases())
    check_graphs_change_nothing(pggan::row(), each, all_amp(), 1, 8);
}
