// SPDX-License-Identifier: Apache-2.0
#include "gan/alternating_phases.h"

namespace gantrain {

std::vector<Phase> alternating_phases(Player& D,
                              const PlayerLoss& d_loss,
                              Player& G,
                              const PlayerLoss& g_loss) {
  std::vector<Phase> phases;
  phases.push_back({"D", D, 1, 0, [d_loss](const Batch& b) { return d_loss(b, 0); }});
  const int64_t turn = D.options.steps;
  for (int64_t i = 0; i < G.options.steps; ++i) {
    phases.push_back({i == 0 ? "G" : "G" + std::to_string(i + 1),
                      G,
                      turn,
                      turn - 1,
                      [g_loss, i](const Batch& b) { return g_loss(b, i + 1); }});
  }
  for (Phase& phase : phases) phase.all_parameters_used = true;
  return phases;
}

}  // namespace gantrain
