// SPDX-License-Identifier: Apache-2.0
#include "gan/alternating_phases.h"

namespace gantrain {

std::vector<Phase> alternating_phases(Player& D,
                                      const PhaseLoss& d_loss,
                                      Player& G,
                                      const PhaseLoss& g_loss) {
  std::vector<Phase> phases;
  phases.push_back({"D", D, d_loss});
  const int64_t turn = D.options.steps;
  for (int64_t i = 0; i < G.options.steps; ++i) {
    const std::string name = i == 0 ? "G" : "G" + std::to_string(i + 1);
    phases.push_back({name, G, g_loss, {turn, turn - 1}});
  }
  for (Phase& phase : phases) phase.all_parameters_used = true;
  return phases;
}

}  // namespace gantrain
