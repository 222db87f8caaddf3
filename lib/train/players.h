// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "distributed/gradient_sync.h"
#include "gan/recipe.h"
#include "train/gradient_guard.h"
#include "train/optimizer.h"
#include "train/plan.h"

namespace gantrain {

// What training keeps for a player beside its network. All of it is there from the start.
struct PlayerState {
  Player* player;
  BatchPlan plan;
  NamedTensors parameters;   // trainable ones, in registration order
  bool all_parameters_used;  // all its phases promise that (Phase::all_parameters_used)
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<GradientGuard> guard;
  NamedTensors active = {};  // those of `parameters` that the present stage trains
  std::shared_ptr<GradientSync> sync = nullptr;  // with --ddp-scope whole one for all players
};

// Optimizers, guards, reductions and, with dist.sync_bn, batch norm over ranks. Throws
// UserError(kUsage) where a recipe cannot do what `dist` asks for, std::logic_error if a trainable
// parameter is in none of its player's parts, or in two.
std::vector<PlayerState> make_players(Recipe& recipe,
                                      const BatchPlan& plan,
                                      const DistOptions& dist,
                                      const GuardSettings& guards,
                                      at::Device device,
                                      const std::shared_ptr<Group>& group);

// A stage begins: asks every Player::active again. Inactive parameters get no gradient, no
// collective and no step. With --find-unused on, reducers stay and search; else all of them are
// destroyed and made anew over the active parameters. Between iterations, on all ranks together.
void rebuild_syncs(std::vector<PlayerState>& players,
                   const DistOptions& dist,
                   const std::shared_ptr<Group>& group);

// "G find-unused off, 1 bucket; D find-unused off, 1 bucket": one line of the log, for each stage.
std::string describe_syncs(const std::vector<PlayerState>& players, const DistOptions& dist);

}  // namespace gantrain
