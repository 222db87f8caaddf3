// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "distributed/gradient_sync.h"
#include "gan/recipe.h"
#include "train/plan/plan.h"
#include "train/step/gradient_guard.h"
#include "train/step/optimizer.h"

namespace gantrain {

// What training keeps for a player beside its network. All of it is there from the start.
struct PlayerState {
  Player* player;
  BatchPlan plan;
  NamedTensors parameters;   // trainable ones, in registration order
  bool all_parameters_used;  // all its phases promise it (Phase::all_parameters_used)
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<GradientGuard> guard;
  NamedTensors active = {};                      // the parameters that the present stage trains
  std::shared_ptr<GradientSync> sync = nullptr;  // one for all players with --ddp-scope whole
};

// Makes the optimizers, guards and gradient reductions of all players and, with dist.sync_bn, batch
// norm over all ranks. Throws UserError(kUsage) where the recipe cannot do what `dist` asks for,
// and std::logic_error if a trainable parameter is in none of its player's parts or in two of them.
std::vector<PlayerState> make_players(Recipe& recipe,
                                      const BatchPlan& plan,
                                      const DistOptions& dist,
                                      const GuardSettings& guards,
                                      at::Device device,
                                      const std::shared_ptr<Group>& group);

// Begins a stage: asks every Player::active again. Inactive parameters get no gradient, no
// collective and no step. With --find-unused on, the reducers stay and search for unused
// parameters; otherwise all of them are destroyed and built again over the active parameters. All
// ranks call it together, between iterations.
void rebuild_syncs(std::vector<PlayerState>& players,
                   const DistOptions& dist,
                   const std::shared_ptr<Group>& group);

// Returns one line of the log for each stage: "G find-unused off, 1 bucket; D find-unused off, 1
// bucket".
std::string describe_syncs(const std::vector<PlayerState>& players, const DistOptions& dist);

}  // namespace gantrain
