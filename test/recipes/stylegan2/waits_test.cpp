// SPDX-License-Identifier: Apache-2.0
// Training steps that never wait for the device, and train as those do that may.
#include "recipes/stylegan2/networks_of_fixtures.h"
#include "recipes/stylegan2/options.h"
#include "recipes/stylegan2/recipe.h"
#include "support/catch.h"
#include "support/step_checks.h"

using namespace gantrain;

namespace {

using Changes = std::map<std::string, Json>;

// Pictures of 8 pixels, batch 8.
StepCase one(const std::string& name,
             const Changes& changes,
             const std::vector<int64_t>& class_counts = {}) {
  return {name, stylegan2::tiny_run(changes), class_counts};
}

// The strength moves in every iteration.
const Changes kAda = {{"ada.mode", "ada"}, {"ada.p", 0.5}, {"ada.interval", 1}, {"ada.kimg", 1}};

StepCase with_vectors() {
  StepCase all = one("ada, vectors", kAda);
  all.label_rows = some_label_rows();
  return all;
}

std::vector<StepCase> cases() {
  return {one("no augmentation", {}),
          one("DiffAugment", {{"augment.mode", "diff"}}),
          one("ada, labels", kAda, {3, 5}),
          with_vectors()};
}

std::vector<Changes> precisions() {
  std::vector<Changes> all = all_amp();
  all.push_back(
      {{"precision.amp", "fp16"}, {"precision.mode", "blocks"}, {"stylegan2.num_fp16_res", 1}});
  return all;
}

}  // namespace

TEST_CASE("NothingWaitsInWrapperMode") {
  check_nothing_waits(stylegan2::row(), cases(), "wrapper", precisions());
}

TEST_CASE("NothingWaitsInDynamicMode") {
  check_nothing_waits(stylegan2::row(), cases(), "dynamic", precisions());
}

TEST_CASE("NothingWaitsInFlatMode") {
  check_nothing_waits(stylegan2::row(), cases(), "flat", precisions());
}

// Without mixing both ways add up the same numbers.
TEST_CASE("WaitingChangesNothing") {
  for (const std::vector<int64_t>& classes : {std::vector<int64_t>{}, {3, 5}})
    check_waiting_changes_nothing(
        stylegan2::row(), one("no mixing", {{"stylegan2.mixing", 0}}, classes), 0);
}

TEST_CASE("WaitingChangesNoMoreThanRoundingWithMixingAndAugmentation") {
  for (StepCase each : cases()) {
    each.changes["G.optimizer"] = each.changes["D.optimizer"] = "sgd";
    check_waiting_changes_nothing(stylegan2::row(), each, 1e-5);
  }
}

namespace {

// Every phase is due often enough to be replayed, and what can move in a run moves.
std::vector<StepCase> moving_cases() {
  std::vector<StepCase> all = cases();
  for (StepCase& each : all) {
    each.changes["stylegan2.g_interval"] = each.changes["stylegan2.d_interval"] = 2;
    each.changes["stylegan2.gamma"] = {{"from", 2}, {"to", 1}, {"kimg", 0.1}};
    each.changes["stylegan2.mixing"] = 0.5;
  }
  return all;
}

}  // namespace

TEST_CASE("GraphsChangeNothingOnTwoRanks") {
  check_graphs_change_nothing(stylegan2::row(), moving_cases().back(), precisions(), 2, 12);
}

TEST_CASE("GraphsChangeNothing") {
  for (const StepCase& each : moving_cases())
    check_graphs_change_nothing(stylegan2::row(), each, precisions(), 1, 12);
}
