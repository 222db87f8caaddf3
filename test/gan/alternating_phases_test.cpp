// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "core/torch.h"
#include "gan/phase.h"

using namespace gantrain;

TEST_CASE("GTakesItsStepsAfterThoseOfD") {
  Player G{"G", {}, {}}, D{"D", {}, {}};
  G.options.steps = 2;
  D.options.steps = 3;
  const auto loss = [](double of) {
    return [of](const PhaseInput&) { return PhaseOutput{torch::tensor(of)}; };
  };
  const std::vector<Phase> phases = alternating_phases(D, loss(0), G, loss(1));
  std::string order;
  for (int64_t iteration = 0; iteration < 6; ++iteration) {
    for (const Phase& phase : phases) {
      if (phase.is_due(iteration)) order += phase.name + " ";
    }
  }
  CHECK(order == "D D D G G2 D D D G G2 ");
  for (const Phase& phase : phases) {
    CHECK(phase.loss({}).loss.item<double>() == (&phase.player == &D ? 0 : 1));
    CHECK(phase.all_parameters_used);
    CHECK(phase.role == Role::kMain);
    CHECK(phase.gain == 1);
  }
}
