// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "gan/phase.h"
#include "gan/schedule.h"

namespace gantrain {

using PhaseLoss = std::function<PhaseOutput(const PhaseInput&)>;

// D's phase "D", and after D.steps of them G.steps phases of G: "G", "G2", ... D's phase has number
// 0 among the draws of an iteration, G's phases count from 1. In these losses every active
// parameter takes part (Phase::all_parameters_used).
std::vector<Phase> alternating_phases(Player& D,
                                      const PhaseLoss& d_loss,
                                      Player& G,
                                      const PhaseLoss& g_loss);

// Lets the parameters of a network that grows take part as `stage` says. `net` and `stage` must
// outlive the player.
template <class Net>
void follow_stage(Player& player, const Net& net, const Stage& stage) {
  player.active = [&net, &stage](const std::string& parameter) {
    return net.active(parameter, stage.resolution, stage.fading);
  };
}

}  // namespace gantrain
