// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "gan/recipe.h"

namespace gantrain {

// The two networks' losses; `phase` counts from 0 for D on: a key of the draws.
using PlayerLoss = std::function<at::Tensor(const Batch&, int64_t phase)>;

// D's phase "D", and after D.steps of them G.steps phases of G: "G", "G2", ... In these losses
// every active parameter takes part (Phase::all_parameters_used).
std::vector<Phase> alternating_phases(Player& D,
                              const PlayerLoss& d_loss,
                              Player& G,
                              const PlayerLoss& g_loss);

// Of a network that grows: its parameters take part as `stage` says; net and stage must outlive
// the player.
template <class Net>
void follow_stage(Player& player, const Net& net, const Stage& stage) {
  player.active = [&net, &stage](const std::string& parameter) {
    return net.active(parameter, stage.resolution, stage.fading);
  };
}

}  // namespace gantrain
