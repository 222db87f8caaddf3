// SPDX-License-Identifier: Apache-2.0
#include "train/step/players.h"

#include <algorithm>

#include "core/torch.h"
#include "nn/batch_norm.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

bool is_inside(const std::string& parameter, const std::string& part) {
  return part.empty() || starts_with(parameter, part + ".");
}

// Checks the parts: a parameter outside all parts would never be reduced, and one in two parts
// twice.
void check_parts(const Player& player, const NamedTensors& parameters) {
  for (const auto& [name, parameter] : parameters) {
    const auto& parts = player.parts;
    const auto holders = std::count_if(
        parts.begin(), parts.end(), [&](const std::string& part) { return is_inside(name, part); });
    if (holders != 1) {
      throw std::logic_error(
          fmt::format("parameter {} of {} is in {} of its parts ({}), not in one",
                      name,
                      player.name,
                      holders,
                      join(parts, ", ")));
    }
  }
}

std::vector<SyncPart> parts_of(const Player& player, const NamedTensors& parameters) {
  std::vector<SyncPart> parts;
  for (const std::string& name : player.parts) {
    parts.push_back({name, {}});
    for (const auto& item : parameters) {
      if (is_inside(item.first, name)) parts.back().parameters.push_back(item);
    }
  }
  return parts;
}

// Reducers that outlive a stage see all parameters and search for those that are frozen.
bool keeps_reducers(const DistOptions& dist) {
  return dist.find_unused == FindUnused::kOn && dist.ddp_mode != DdpMode::kFlat &&
         !dist.static_graph;
}

void find_active(PlayerState& state) {
  state.active.clear();
  for (const auto& item : state.parameters) {
    if (!state.player->active || state.player->active(item.first)) state.active.push_back(item);
  }
  state.optimizer->restrict_to(state.active);
}

// --ddp-scope whole has one reducer over all networks, armed by the loss of whichever player steps.
// Parameters that the loss does not reach are sent as zeros.
std::shared_ptr<GradientSync> make_whole_sync(const std::vector<PlayerState>& players,
                                              DistOptions dist,
                                              const std::shared_ptr<Group>& group) {
  const bool keeps = keeps_reducers(dist);
  dist.find_unused = FindUnused::kOn;
  std::vector<SyncPart> parts;
  for (const PlayerState& state : players) {
    for (SyncPart& part : parts_of(*state.player, keeps ? state.parameters : state.active))
      parts.push_back(std::move(part));
  }
  return GradientSync::create(dist, group, "the whole GAN", std::move(parts));
}

void make_syncs(std::vector<PlayerState>& players,
                const DistOptions& dist,
                const std::shared_ptr<Group>& group) {
  const bool keeps = keeps_reducers(dist);
  // A reducer over frozen parameters would crash, and a phase leaves all players but one frozen.
  for (PlayerState& state : players) {
    for (auto& [name, parameter] : state.parameters) parameter.requires_grad_(true);
  }
  if (dist.ddp_scope == DdpScope::kWhole) {
    const std::shared_ptr<GradientSync> whole = make_whole_sync(players, dist, group);
    for (PlayerState& state : players) state.sync = whole;
    return;
  }
  for (PlayerState& state : players) {
    const SyncPromise promise{state.all_parameters_used, keeps && state.player->active != nullptr};
    state.sync =
        GradientSync::create(dist,
                             group,
                             state.player->name,
                             parts_of(*state.player, keeps ? state.parameters : state.active),
                             promise);
  }
}

// A reducer with a static graph fits only a player all of whose phases have the same graph.
void check_static(const Phase& phase) {
  if (phase.all_parameters_used) return;
  fail(Exit::kUsage,
       "dist.static_graph = on: phase {} of this recipe may leave parameters of {} out, so graphs "
       "differ; leave it off",
       phase.name,
       phase.player.name);
}

// Whether every phase of the player promises that all parameters take part.
bool all_phases_promise(const Recipe& recipe, const Player& player, bool static_graph) {
  bool all = true;
  for (const Phase& phase : recipe.phases()) {
    if (&phase.player != &player) continue;
    all = all && phase.all_parameters_used;
    if (static_graph) check_static(phase);
  }
  return all;
}

void share_batch_statistics(const Player& player, const std::shared_ptr<Group>& group) {
  for (const auto& module : player.network->modules()) {
    auto* norm = dynamic_cast<BatchNorm2d*>(module.get());
    if (norm == nullptr) continue;
    norm->sum_over_ranks = rank_sum(group);
    norm->ranks = group->world();
  }
}

}  // namespace

std::vector<PlayerState> make_players(Recipe& recipe,
                                      const BatchPlan& plan,
                                      const DistOptions& dist,
                                      const GuardSettings& guards,
                                      at::Device device,
                                      const std::shared_ptr<Group>& group) {
  std::vector<PlayerState> players;
  for (Player* player : recipe.players()) {
    NamedTensors parameters;
    for (const auto& item : player->network->named_parameters()) {
      if (item.value().requires_grad()) parameters.emplace_back(item.key(), item.value());
    }
    check_parts(*player, parameters);
    const bool promised = all_phases_promise(recipe, *player, dist.static_graph);
    if (dist.sync_bn && group->world() > 1) share_batch_statistics(*player, group);
    players.push_back({player,
                       plan_player(plan, player->name, player->options.accumulate),
                       parameters,
                       promised,
                       Optimizer::create(player->options, parameters, player->step_share),
                       std::make_unique<GradientGuard>(guards, player->name, device)});
    find_active(players.back());
  }
  make_syncs(players, dist, group);
  return players;
}

void rebuild_syncs(std::vector<PlayerState>& players,
                   const DistOptions& dist,
                   const std::shared_ptr<Group>& group) {
  for (PlayerState& state : players) {
    state.optimizer->clear_gradients();  // views of buckets that go
    find_active(state);
  }
  if (keeps_reducers(dist)) return;
  // All old reducers are destroyed before the first new one is made: two reducers on one parameter
  // would both average its gradient.
  for (PlayerState& state : players) {
    state.player->sync = nullptr;
    state.sync.reset();
  }
  make_syncs(players, dist, group);
}

std::string describe_syncs(const std::vector<PlayerState>& players, const DistOptions& dist) {
  const std::string_view mode = names(dist.ddp_mode)[static_cast<size_t>(dist.ddp_mode)];
  if (dist.ddp_scope == DdpScope::kWhole)
    return fmt::format("{} over the whole GAN: {}", mode, players.front().sync->description());
  std::vector<std::string> each;
  for (const PlayerState& state : players) {
    each.push_back(fmt::format("{} {}", state.player->name, state.sync->description()));
  }
  return fmt::format("{}: {}", mode, join(each, "; "));
}

}  // namespace gantrain
