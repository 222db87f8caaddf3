// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "gan/recipe.h"

namespace gantrain {

// The two networks' losses; `phase` counts from 0 for D on: a key of the draws.
using PlayerLoss = std::function<at::Tensor(const Batch&, int64_t phase)>;

// D's phase "D", and after D.steps of them G.steps phases of G: "G", "G2", ... In these losses
// every active parameter takes part (Phase::reaches_all).
std::vector<Phase> take_turns(Player& D,
                              const PlayerLoss& d_loss,
                              Player& G,
                              const PlayerLoss& g_loss);

}  // namespace gantrain
