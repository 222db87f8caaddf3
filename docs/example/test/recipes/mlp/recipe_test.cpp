// SPDX-License-Identifier: Apache-2.0
#include "recipes/mlp/recipe.h"

#include "core/torch.h"
#include "recipes/mlp/options.h"
#include "support/catch.h"
#include "support/phase_checks.h"

using namespace gantrain;

namespace {

// Pictures of 8 pixels, batch 4.
Config tiny() {
  return step_config(mlp::facts(), {{"data.resolution", 8}, {"train.batch", 4}, {"mlp.width", 16}});
}

GlobalBatch batch() { return {torch::linspace(-1, 1, 4 * 3 * 8 * 8).reshape({4, 3, 8, 8})}; }

}  // namespace

TEST_CASE("PhasesAreFunctionsOfTheirInput") {
  StepOnCpu step(mlp::row(), tiny());
  check_phases_are_functions(*step, batch());
}

TEST_CASE("AnIterationMovesBothNetworks") {
  StepOnCpu step(mlp::row(), tiny());
  for (const Player* player : step->recipe().players()) {
    const at::Tensor weight = player->network->parameters().front();
    const at::Tensor before = weight.detach().clone();
    step.run(batch());
    CHECK_FALSE(torch::equal(weight, before));
  }
}
