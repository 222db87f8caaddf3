// SPDX-License-Identifier: Apache-2.0
#include "gan/alternating_phases.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>

using namespace gantrain;

TEST_CASE("GTakesItsStepsAfterThoseOfD") {
  Player G{"G", {}, {}}, D{"D", {}, {}};
  G.options.steps = 2;
  D.options.steps = 3;
  const auto number = [](const Batch&, int64_t phase) {
    return torch::tensor(static_cast<double>(phase));
  };
  const std::vector<Phase> phases = alternating_phases(D, number, G, number);
  std::string order;
  for (int64_t iteration = 0; iteration < 6; ++iteration) {
    for (const Phase& phase : phases) {
      if (iteration % phase.interval == phase.first) order += phase.name + " ";
    }
  }
  CHECK(order == "D D D G G2 D D D G G2 ");
  for (size_t i = 0; i < phases.size(); ++i)
    CHECK(phases[i].loss({}).item<double>() == static_cast<double>(i));
}
