// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "gan/phase.h"
#include "gan/schedule.h"

namespace gantrain {

using PhaseLoss = std::function<PhaseOutput(const PhaseInput&)>;

// Makes the phases of two players that are trained in turn. Each iteration has one phase of D, "D";
// in every D.steps-th iteration G.steps phases of G follow it: "G", "G2", ... In the keys of draws
// D's phase has number 0, and G's phases count from 1. The phases promise that every active
// parameter takes part in the losses (Phase::all_parameters_used).
std::vector<Phase> alternating_phases(Player& D,
                                      const PhaseLoss& d_loss,
                                      Player& G,
                                      const PhaseLoss& g_loss);

// Makes the parameters of a growing network active or inactive as `stage` says. `net` and `stage`
// must outlive the player.
template <class Net>
void follow_stage(Player& player, const Net& net, const Stage& stage) {
  player.active = [&net, &stage](const std::string& parameter) {
    return net.active(parameter, stage.resolution, stage.fading);
  };
}

}  // namespace gantrain
