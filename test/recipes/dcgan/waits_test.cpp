// SPDX-License-Identifier: Apache-2.0
// Training steps that never wait for the device, and train as those do that may.
#include "recipes/dcgan/options.h"
#include "recipes/dcgan/recipe.h"
#include "support/catch.h"
#include "support/step_checks.h"

using namespace gantrain;

namespace {

using Changes = std::map<std::string, Json>;

// Pictures of 16 pixels, batch 8.
StepCase one(const std::string& name, Changes changes) {
  changes.merge(Changes{{"data.resolution", 16},
                        {"train.batch", 8},
                        {"dcgan.channels", 16},
                        {"dcgan.d_channels", 4}});
  return {name, changes};
}

std::vector<StepCase> cases() {
  return {one("dcgan", {}),
          one("wgan-gp, DiffAugment",
              {{"dcgan.loss", "wgan-gp"}, {"dcgan.d_norm", "none"}, {"augment.mode", "diff"}}),
          one("clipped", {{"optim.clip_norm", 0.1}, {"optim.clip_value", 0.01}})};
}

}  // namespace

TEST_CASE("NothingWaitsInWrapperMode") {
  check_nothing_waits(dcgan::row(), cases(), "wrapper", all_amp());
}

TEST_CASE("NothingWaitsInDynamicMode") {
  check_nothing_waits(dcgan::row(), cases(), "dynamic", all_amp());
}

TEST_CASE("NothingWaitsInFlatMode") {
  check_nothing_waits(dcgan::row(), cases(), "flat", all_amp());
}

TEST_CASE("WaitingChangesNothing") {
  for (const StepCase& each : cases()) check_waiting_changes_nothing(dcgan::row(), each, 0);
}

// Its verdict stays on the device, where the optimizer leaves the step out.
TEST_CASE("WaitingChangesNothingWhereStepsAreLeftOut") {
  for (const char* optimizer : {"adam", "rmsprop"}) {
    const StepCase high = one(optimizer,
                              {{"precision.amp", "fp16"},
                               {"precision.initial_scale", 1e9},
                               {"precision.backoff_factor", 1e-6},
                               {"G.optimizer", optimizer},
                               {"D.optimizer", optimizer}});
    check_waiting_changes_nothing(dcgan::row(), high, 0);
  }
}

namespace {

// A learning rate and a half-life that change in every iteration, accumulation, both optimizers.
std::vector<StepCase> moving_cases() {
  const Json ramp = {{"from", 0.001}, {"to", 0.0001}, {"kimg", 0.05}};
  std::vector<StepCase> all = cases();
  all.push_back(one("accumulated", {{"train.micro_batch", 4}, {"G.adam.lr", ramp}}));
  all.push_back(one("rmsprop", {{"G.optimizer", "rmsprop"}, {"ema.half_life", 1}}));
  all.push_back(one("betas", {{"D.adam.beta1", {{"from", 0.1}, {"to", 0.5}, {"kimg", 0.05}}}}));
  return all;
}

}  // namespace

TEST_CASE("GraphsChangeNothingOnTwoRanks") {
  check_graphs_change_nothing(dcgan::row(), cases().front(), all_amp(), 2, 8);
}

TEST_CASE("GraphsChangeNothing") {
  for (const StepCase& each : moving_cases())
    check_graphs_change_nothing(dcgan::row(), each, all_amp(), 1, 8);
}
