// SPDX-License-Identifier: Apache-2.0
#include "train/step.h"

#include <torch/torch.h>

namespace gantrain {

namespace {

std::vector<SyncPart> parts_of(const Player& player) {
  std::vector<SyncPart> parts;
  for (const std::string& name : player.parts) {
    NamedTensors parameters;
    for (const auto& item : player.network->named_parameters()) {
      const bool inside = name.empty() || item.key().compare(0, name.size() + 1, name + ".") == 0;
      if (inside && item.value().requires_grad()) parameters.emplace_back(item.key(), item.value());
    }
    parts.push_back({name, std::move(parameters)});
  }
  return parts;
}

// Only the stepping player's parameters ask for gradients.
void freeze_all_but(const Player& stepping, std::vector<PlayerState>& players) {
  for (PlayerState& state : players) {
    for (auto& [name, parameter] : state.parameters)
      parameter.requires_grad_(state.player == &stepping);
  }
}

PlayerState& state_of_player(std::vector<PlayerState>& players, const Player& player) {
  for (PlayerState& state : players) {
    if (state.player == &player) return state;
  }
  throw std::logic_error("phase of an unknown player " + player.name);
}

void run_phase(Phase& phase, PlayerState& state, const RankBatch& batch, const StepHooks& hooks) {
  const int64_t count = state.plan.accumulate;
  const Traffic before = hooks.traffic();
  state.optimizer->clear_gradients();
  state.player->sync = state.sync.get();
  for (int64_t k = 0; k < count; ++k) {
    const bool last = k + 1 == count;
    state.sync->begin(last);
    hooks.phase(phase.name + " forward");
    const at::Tensor loss = phase.loss(micro_batch(batch, state.plan, k));
    hooks.loss("Loss/" + state.player->name + (phase.regularises ? "/reg" : "/loss"), loss);
    const double factor = phase.gain / static_cast<double>(count);
    const at::Tensor share = state.sync->expect_backward(factor == 1 ? loss : loss * factor);
    hooks.phase(phase.name + " backward");
    share.backward();
  }
  state.sync->finish();
  const Traffic after = hooks.traffic();
  hooks.spent(phase.name,
              {{after.collectives - before.collectives, after.bytes - before.bytes},
               state.sync->buckets()});
  state.player->sync = nullptr;
  hooks.phase(phase.name + " step");
  state.optimizer->step();
  state.optimizer->clear_gradients();
}

}  // namespace

namespace {

// --ddp-scope whole: one reducer over all networks, armed by the loss of whichever steps. What the
// loss does not reach goes over the wire as zeros.
std::shared_ptr<GradientSync> make_whole_sync(Recipe& recipe,
                                              DistOptions dist,
                                              const std::shared_ptr<Group>& group) {
  dist.find_unused = FindUnused::kOn;
  std::vector<SyncPart> parts;
  for (const Player* player : recipe.players()) {
    for (SyncPart& part : parts_of(*player)) parts.push_back(std::move(part));
  }
  return GradientSync::create(dist, group, "the whole GAN", std::move(parts));
}

}  // namespace

std::vector<PlayerState> make_players(Recipe& recipe,
                                      const BatchPlan& plan,
                                      const DistOptions& dist,
                                      const std::shared_ptr<Group>& group) {
  std::shared_ptr<GradientSync> whole;
  if (dist.ddp_scope == DdpScope::kWhole) whole = make_whole_sync(recipe, dist, group);
  std::vector<PlayerState> players;
  for (Player* player : recipe.players()) {
    PlayerState state{
        player, plan_player(plan, player->name, player->options.accumulate), {}, nullptr, whole};
    for (const auto& item : player->network->named_parameters()) {
      if (item.value().requires_grad()) state.parameters.emplace_back(item.key(), item.value());
    }
    state.optimizer = Optimizer::create(player->options, state.parameters);
    if (!whole) state.sync = GradientSync::create(dist, group, player->name, parts_of(*player));
    players.push_back(std::move(state));
  }
  return players;
}

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
    if (batch.iteration % phase.interval != phase.first) continue;
    freeze_all_but(phase.player, players);
    run_phase(phase, state_of_player(players, phase.player), batch, hooks);
  }
}

}  // namespace gantrain
