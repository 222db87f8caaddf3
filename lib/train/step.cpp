// SPDX-License-Identifier: Apache-2.0
#include "train/step.h"

#include <torch/torch.h>

#include <algorithm>

#include "util/time.h"

namespace gantrain {

namespace {

// Only the active parameters of the stepping player, and of one that records, ask for gradients.
void freeze_all_but(const Player& stepping,
                    const Player* recording,
                    std::vector<PlayerState>& players) {
  for (PlayerState& state : players) {
    for (auto& [name, parameter] : state.parameters) parameter.requires_grad_(false);
    if (state.player != &stepping && state.player != recording) continue;
    for (auto& [name, parameter] : state.active) parameter.requires_grad_(true);
  }
}

PlayerState& state_of_player(std::vector<PlayerState>& players, const Player& player) {
  for (PlayerState& state : players) {
    if (state.player == &player) return state;
  }
  throw std::logic_error("phase of an unknown player " + player.name);
}

// Phase::records, if what is recorded will be used and is one micro-batch's.
const Player* recorded_player(const Phase& phase,
                              std::vector<Phase>& phases,
                              std::vector<PlayerState>& players,
                              int64_t iteration) {
  if (phase.records == nullptr) return nullptr;
  const bool used = std::any_of(phases.begin(), phases.end(), [&](const Phase& other) {
    return &other.player == phase.records && other.is_due(iteration);
  });
  const bool whole = state_of_player(players, phase.player).plan.accumulate == 1 &&
                     state_of_player(players, *phase.records).plan.accumulate == 1;
  return used && whole ? phase.records : nullptr;
}

// Forward and loss alone: a backward pass computes in the types that they left in the graph.
at::Tensor loss_of(const Phase& phase, const Batch& batch, const StepHooks& hooks) {
  if (hooks.precision == nullptr) return phase.loss(batch);
  const AutocastScope lowered(*hooks.precision, batch.real.device().type(), hooks.computed);
  return phase.loss(batch);
}

// The optimizer's step, unless gradients are not finite; returns whether it was made.
bool step_player(PlayerState& state, const StepHooks& hooks) {
  GradientReport report;
  if (state.guard) {
    report = state.guard->check(state.active);
    hooks.gradients(*state.player, report);
  }
  if (report.finite) state.optimizer->step();
  state.optimizer->clear_gradients();
  return report.finite;
}

void run_phase(Phase& phase, PlayerState& state, const RankBatch& batch, const StepHooks& hooks) {
  const int64_t count = state.plan.accumulate;
  const Traffic before = hooks.traffic();
  state.optimizer->clear_gradients();
  state.player->sync = state.sync.get();
  std::vector<at::Tensor> losses;
  for (int64_t k = 0; k < count; ++k) {
    const bool last = k + 1 == count;
    state.sync->begin(last);
    hooks.phase(phase.name + " forward");
    const at::Tensor loss = loss_of(phase, micro_batch(batch, state.plan, k), hooks);
    losses.push_back(loss.detach());
    const double factor = phase.gain / static_cast<double>(count);
    const at::Tensor part = factor == 1 ? loss : loss * factor;
    const at::Tensor share =
        state.sync->expect_backward(state.guard ? state.guard->scaled(part) : part);
    hooks.phase(phase.name + " backward");
    share.backward();
  }
  state.sync->finish();
  const Traffic after = hooks.traffic();
  const bool any = after.collectives > before.collectives;
  hooks.spent(phase.name,
              {{after.collectives - before.collectives, after.bytes - before.bytes, after.launched},
               state.sync->buckets(),
               any ? monotonic_seconds() - after.launched : 0});
  state.player->sync = nullptr;
  hooks.phase(phase.name + " step");
  if (!step_player(state, hooks)) return;
  const std::string name = "Loss/" + state.player->name + (phase.regularises ? "/reg" : "/loss");
  for (const at::Tensor& loss : losses) hooks.loss(name, loss);
}

}  // namespace

Batch micro_batch(const RankBatch& batch, const BatchPlan& plan, int64_t k) {
  const int64_t count = plan.accumulate;
  const auto part = [&](const at::Tensor& all) {
    return !all.defined() || count == 1 ? all : all.slice(0, k, std::nullopt, count).contiguous();
  };
  Batch micro;
  micro.real = part(batch.real);
  micro.labels = part(batch.labels);
  micro.samples = {k * plan.world + batch.rank, count * plan.world, plan.micro_batch};
  micro.iteration = batch.iteration;
  micro.images_seen = batch.images_seen;
  return micro;
}

void run_iteration(Recipe& recipe,
                   std::vector<PlayerState>& players,
                   const RankBatch& batch,
                   const StepHooks& hooks) {
  for (Phase& phase : recipe.phases()) {
    if (!phase.is_due(batch.iteration)) continue;
    freeze_all_but(
        phase.player, recorded_player(phase, recipe.phases(), players, batch.iteration), players);
    run_phase(phase, state_of_player(players, phase.player), batch, hooks);
  }
}

}  // namespace gantrain
