// SPDX-License-Identifier: Apache-2.0
#include "train/step/players.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/torch.h"
#include "nn/normalisation.h"
#include "ops/adam/adam.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

Optimizer::Optimizer(NamedTensors parameters) {
  for (auto& [name, tensor] : parameters) {
    names_.push_back(name);
    parameters_.push_back(tensor);
  }
  active_.assign(parameters_.size(), true);
}

void Optimizer::restrict_to(const NamedTensors& active) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    active_[i] = std::any_of(active.begin(), active.end(), [&](const auto& item) {
      return item.second.is_same(parameters_[i]);
    });
  }
}

std::vector<Tensor> Optimizer::moving(const std::vector<Tensor>& all) const {
  std::vector<Tensor> some;
  for (size_t i = 0; i < all.size(); ++i) {
    if (moves_[i]) some.push_back(all[i]);
  }
  return some;
}

void Optimizer::step(const GradientVerdict& verdict, const std::vector<std::string>& unreached) {
  if (!verdict.finite.value_or(true)) return;
  const torch::NoGradGuard no_grad;
  moves_ = active_;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (contains(unreached, names_[i])) moves_[i] = false;
  }
  std::vector<Tensor> parameters = moving(parameters_);
  std::vector<Tensor> gradients;
  for (const Tensor& p : parameters) {
    gradients.push_back(p.grad().defined() ? p.grad() : torch::zeros_like(p));
  }
  if (parameters.empty()) return;
  update(parameters, gradients, verdict.finite ? Tensor() : verdict.found);
}

void Optimizer::reset() {
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : state_) tensor.zero_();
}

void Optimizer::clear_gradients() {
  for (Tensor& p : parameters_) p.mutable_grad() = Tensor();
}

std::vector<Tensor> Optimizer::keep_zeros(const char* name) {
  std::vector<Tensor> all;
  for (const Tensor& p : parameters_) all.push_back(torch::zeros_like(p.detach()));
  return keep(name, std::move(all));
}

std::vector<Tensor> Optimizer::keep(const char* name, std::vector<Tensor> tensors) {
  for (size_t i = 0; i < tensors.size(); ++i)
    state_.emplace_back(std::string(name) + "/" + names_[i], tensors[i]);
  return tensors;
}

namespace {

// Makes a step that is left out on the device, where GradientVerdict::found says so, by what it
// adds: zeros. Without a verdict everything is as it is.
class LeftOut {
 public:
  explicit LeftOut(const Tensor& found) {
    if (found.defined()) bad_ = found.reshape({}) > 0;
  }

  // Returns the tensors, or `instead` everywhere where the step is left out.
  std::vector<Tensor> or_else(const std::vector<Tensor>& tensors, double instead) const {
    if (!bad_.defined()) return tensors;
    std::vector<Tensor> all;
    for (const Tensor& tensor : tensors) all.push_back(tensor.masked_fill(bad_, instead));
    return all;
  }
  // Multiplies by `factor`, unless the step is left out.
  void scale_(std::vector<Tensor>& tensors, double factor) const {
    if (!bad_.defined()) {
      at::_foreach_mul_(tensors, factor);
      return;
    }
    const Tensor one = at::ones({}, tensors.front().options());
    at::_foreach_mul_(tensors, at::where(bad_, one, at::full_like(one, factor)));
  }

 private:
  Tensor bad_;  // bool []
};

// The sum of each tensor's elements, none of which is negative: float64 [n].
Tensor sums_of(const std::vector<Tensor>& squares) {
  return torch::stack(at::_foreach_norm(squares, 1)).to(at::kDouble);
}

class Adam final : public Optimizer {
 public:
  Adam(const AdamOptions& o, double step_share, NamedTensors parameters)
      : Optimizer(std::move(parameters)), o_(o), step_share_(step_share) {
    first_ = keep_zeros("exp_avg");
    second_ = keep_zeros("exp_avg_sq");
    if (!parameters_.empty() && records_graphs(parameters_.front().device().type()))
      lr_ = torch::full({},
                        rate(o_.lr) * step_share_,
                        parameters_.front().options().dtype(at::kFloat).requires_grad(false));
    std::vector<Tensor> steps;
    for (const Tensor& p : parameters_)
      steps.push_back(torch::zeros({}, at::TensorOptions().dtype(at::kFloat).device(p.device())));
    steps_ = keep("step", std::move(steps));
  }

 protected:
  void update(std::vector<Tensor>& parameters,
              std::vector<Tensor>& gradients,
              const Tensor& found) override {
    std::vector<Tensor> first = moving(first_), second = moving(second_), steps = moving(steps_);
    AdamSettings now = {rate(o_.lr) * step_share_,
                        std::pow(o_.beta1.at(images_seen_), step_share_),
                        std::pow(o_.beta2.at(images_seen_), step_share_),
                        o_.eps};
    now.lr_on_device = lr_;
    adam_step_(parameters, gradients, first, second, steps, now, found);
  }

 public:
  void advance_to(int64_t images_seen) override {
    Optimizer::advance_to(images_seen);
    if (lr_.defined()) lr_.fill_(rate(o_.lr) * step_share_);
  }
  // Moments begin at zero: they hold 1 - beta2^t of a mean over t steps (Kingma and Ba 2015, sec.
  // 3).
  Tensor gradient_size() const override {
    const torch::NoGradGuard no_grad;
    if (second_.empty()) return {};
    const double beta2 = std::pow(o_.beta2.at(images_seen_), step_share_);
    const Tensor held = 1 - at::pow(beta2, torch::stack(steps_).to(at::kDouble));
    return (sums_of(second_) / held.clamp_min(1 - beta2)).sum().sqrt();
  }
  bool replayable() const override {
    return lr_.defined() && o_.beta1.is_constant() && o_.beta2.is_constant();
  }

 private:
  AdamOptions o_;
  double step_share_;
  // float32 [] where steps can be recorded, which would freeze the host's number.
  Tensor lr_;
  std::vector<Tensor> first_, second_, steps_;
};

class Sgd final : public Optimizer {
 public:
  Sgd(const SgdOptions& o, NamedTensors parameters) : Optimizer(std::move(parameters)), o_(o) {
    if (o_.momentum > 0) momentum_ = keep_zeros("momentum");
  }

 protected:
  // v <- m v + g; p <- p - lr v (Sutskever et al. 2013, as torch has it).
  void update(std::vector<Tensor>& parameters,
              std::vector<Tensor>& gradients,
              const Tensor& found) override {
    const LeftOut left_out(found);
    // x + -0 = x for every x, the sign of 0 too.
    const std::vector<Tensor> added = left_out.or_else(gradients, -0.0);
    if (o_.momentum > 0) {
      std::vector<Tensor> momentum = moving(momentum_);
      left_out.scale_(momentum, o_.momentum);
      at::_foreach_add_(momentum, added);
      at::_foreach_add_(parameters, left_out.or_else(momentum, 0), -rate(o_.lr));
    } else {
      at::_foreach_add_(parameters, added, -rate(o_.lr));
    }
  }

 private:
  SgdOptions o_;
  std::vector<Tensor> momentum_;
};

class Rmsprop final : public Optimizer {
 public:
  Rmsprop(const RmspropOptions& o, NamedTensors parameters)
      : Optimizer(std::move(parameters)), o_(o) {
    square_ = keep_zeros("square_avg");
  }

  Tensor gradient_size() const override {
    const torch::NoGradGuard no_grad;
    return square_.empty() ? Tensor() : sums_of(square_).sum().sqrt();
  }

 protected:
  // s <- a s + (1 - a) g^2; p <- p - lr g / (sqrt(s) + eps) (Hinton 2012, as torch has it).
  void update(std::vector<Tensor>& parameters,
              std::vector<Tensor>& gradients,
              const Tensor& found) override {
    const LeftOut left_out(found);
    const std::vector<Tensor> added = left_out.or_else(gradients, 0);
    std::vector<Tensor> square = moving(square_);
    left_out.scale_(square, o_.alpha);
    at::_foreach_addcmul_(square, added, added, 1 - o_.alpha);
    std::vector<Tensor> root = at::_foreach_sqrt(square);
    at::_foreach_add_(root, o_.eps);
    at::_foreach_addcdiv_(parameters, added, left_out.or_else(root, 1), -rate(o_.lr));
  }

 private:
  RmspropOptions o_;
  std::vector<Tensor> square_;
};

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
  thaw(players);  // a reducer over frozen parameters would crash
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
    auto* norm = dynamic_cast<SharesBatchStatistics*>(module.get());
    if (norm == nullptr) continue;
    norm->sum_over_ranks = rank_sum(group);
    norm->ranks = group->world();
  }
}

}  // namespace

std::unique_ptr<Optimizer> Optimizer::create(const PlayerOptions& o,
                                             NamedTensors parameters,
                                             double step_share) {
  switch (o.optimizer) {
    case OptimizerKind::kAdam:
      return std::make_unique<Adam>(o.adam, step_share, std::move(parameters));
    case OptimizerKind::kSgd:
      return std::make_unique<Sgd>(o.sgd, std::move(parameters));
    case OptimizerKind::kRmsprop:
      return std::make_unique<Rmsprop>(o.rmsprop, std::move(parameters));
  }
  throw std::logic_error("no such optimizer");
}

double ema_beta(const EmaOptions& o, int64_t images_seen, int64_t batch) {
  double half_life = o.half_life.at(images_seen);
  if (o.rampup > 0) half_life = std::min(half_life, static_cast<double>(images_seen) * o.rampup);
  return half_life <= 0 ? 0 : std::pow(0.5, static_cast<double>(batch) / half_life);
}

void update_ema(torch::nn::Module& average,
                const torch::nn::Module& source,
                const DeviceNumber& weight) {
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> averages = average.parameters();
  lerp_(averages, source.parameters(), weight);
  const std::vector<Tensor> from = source.buffers();
  std::vector<Tensor> to = average.buffers();
  if (!to.empty()) at::_foreach_copy_(to, from);
}

void thaw(std::vector<PlayerState>& players) {
  for (PlayerState& state : players) {
    for (auto& [name, parameter] : state.parameters) parameter.requires_grad_(true);
  }
}

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

namespace {

constexpr int64_t kOfEach = 64;  // weights of each parameter

// The first weights of each parameter, of a matrix or kernel those of its first row.
at::Tensor some_weights(const NamedTensors& parameters) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  for (const auto& [name, parameter] : parameters) {
    if (parameter.numel() == 0) continue;
    const at::Tensor row = parameter.dim() > 1 ? parameter[0] : parameter;
    const at::Tensor flat = row.reshape(-1);
    parts.push_back(flat.narrow(0, 0, std::min(kOfEach, flat.numel())).to(at::kFloat));
  }
  return parts.empty() ? at::Tensor() : torch::cat(parts);
}

}  // namespace

Motion::Motion(const std::vector<PlayerState>& players) {
  for (const PlayerState& state : players)
    before_[state.player->name] = some_weights(state.parameters);
}

Statistics Motion::since_last(const std::vector<PlayerState>& players) {
  const torch::NoGradGuard no_grad;
  Statistics statistics;
  for (const PlayerState& state : players) {
    const std::string& name = state.player->name;
    const at::Tensor now = some_weights(state.parameters);
    const at::Tensor before = std::exchange(before_[name], now);
    if (now.defined() && before.defined() && before.sizes() == now.sizes()) {
      const at::Tensor size = now.norm().clamp_min(std::numeric_limits<float>::min());
      statistics.emplace_back("Weights/" + name + "/moved", (now - before).norm() / size);
    }
    if (at::Tensor size = state.optimizer->gradient_size(); size.defined())
      statistics.emplace_back("Gradients/" + name + "/size", std::move(size));
  }
  return statistics;
}

}  // namespace gantrain
