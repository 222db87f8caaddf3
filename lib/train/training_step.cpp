// SPDX-License-Identifier: Apache-2.0
#include "train/training_step.h"

#include <algorithm>
#include <utility>

#include "core/torch.h"
#include "train/ema.h"
#include "train/mixed_precision.h"
#include "util/time.h"

namespace gantrain {

Samples micro_batch_samples(const BatchPlan& plan, int64_t rank, int64_t part) {
  return {part * plan.world + rank, plan.accumulate * plan.world, plan.micro_batch};
}

namespace {

// Adds the sums of a micro-batch to the sums of the earlier micro-batches.
void add(Statistics& all, const Statistics& more, const at::TensorOptions& like) {
  for (const auto& [name, sum] : more) {
    const auto known = std::find_if(
        all.begin(), all.end(), [&name = name](const auto& item) { return item.first == name; });
    if (known == all.end()) {
      all.emplace_back(name, sum.detach().to(like));
    } else {
      known->second = known->second + sum.detach().to(like);
    }
  }
}

Traffic difference(const Traffic& before, const Traffic& after) {
  return {after.collectives - before.collectives, after.bytes - before.bytes, after.launched};
}

}  // namespace

const PlayerState& TrainingStep::state_of(const Player& player) const {
  for (const PlayerState& state : players_) {
    if (state.player == &player) return state;
  }
  throw std::logic_error("phase of an unknown player " + player.name);
}

PlayerState& TrainingStep::state_of(const Player& player) {
  return const_cast<PlayerState&>(std::as_const(*this).state_of(player));
}

// Only the active parameters of the player that steps need gradients, and the active parameters of
// a player whose graph is handed over.
void TrainingStep::freeze_all_but(const Phase& phase, const Player* recorded) {
  for (PlayerState& state : players_) {
    for (auto& [name, parameter] : state.parameters) parameter.requires_grad_(false);
    if (state.player != &phase.player && state.player != recorded) continue;
    for (auto& [name, parameter] : state.active) parameter.requires_grad_(true);
  }
}

// Returns the phase that takes what this one hands over, or null: there must be one in this
// iteration, and both must have a single micro-batch.
const Phase* TrainingStep::receiver_of(const Phase& phase, int64_t iteration) const {
  if (phase.hands_to == nullptr || state_of(phase.player).plan.accumulate != 1 ||
      state_of(*phase.hands_to).plan.accumulate != 1)
    return nullptr;
  const std::vector<Phase>& phases = recipe_->phases();
  for (const Phase* later = &phase + 1; later < phases.data() + phases.size(); ++later) {
    if (&later->player == phase.hands_to && later->is_due(iteration)) return later;
  }
  return nullptr;
}

PhaseInput TrainingStep::input_of(const Phase& phase, const RankBatch& batch, int64_t part) const {
  const BatchPlan& plan = state_of(phase.player).plan;
  const auto part_of = [&](const at::Tensor& all) {
    if (!all.defined() || plan.accumulate == 1) return all;
    return all.slice(0, part, std::nullopt, plan.accumulate).contiguous();
  };
  PhaseInput input;
  input.real = part_of(batch.real);
  input.labels = part_of(batch.labels);
  input.key = key_.of_phase(&phase - recipe_->phases().data());
  input.samples = micro_batch_samples(plan, setup_.group->rank(), part);
  if (carried_to_ == &phase) input.carried = carried_;
  input.hands_over = receiver_of(phase, batch.iteration) != nullptr;
  return input;
}

// Forward and loss alone: a backward pass computes in the types that they left in the graph.
PhaseOutput TrainingStep::run_micro_batch(const Phase& phase, const PhaseInput& input) const {
  // In wrapper mode, outputs that were handed over count as a call of their network.
  for (const auto& [name, tensor] : input.carried.tensors) phase.player.called("", tensor);
  const AutocastScope pass(precision_, input.real.device().type(), computed_);
  return phase.run(input);
}

void TrainingStep::hand_over(Carry carry, const Phase* receiver) {
  carried_ = std::move(carry);
  carried_to_ = receiver;
}

// Forward and backward passes of all micro-batches.
PhaseComputed TrainingStep::compute(const Phase& phase,
                                    const RankBatch& batch,
                                    const Phase* receiver) {
  PlayerState& state = state_of(phase.player);
  const int64_t count = state.plan.accumulate;
  PhaseComputed computed;
  state.optimizer->clear_gradients();
  for (int64_t part = 0; part < count; ++part) {
    state.sync->begin(/*last=*/part + 1 == count);
    setup_.doing(phase.name + " forward");
    PhaseOutput out = run_micro_batch(phase, input_of(phase, batch, part));
    const double factor = phase.gain / static_cast<double>(count);
    const at::Tensor share = factor == 1 ? out.loss : out.loss * factor;
    const at::Tensor loss = state.sync->expect_backward(state.guard->scaled(share));
    setup_.doing(phase.name + " backward");
    loss.backward();
    out.running.apply();
    add(computed.sums, out.sums, batch.real.options());
    computed.losses.push_back(out.loss.detach());
    for (const auto& [name, values] : out.statistics)
      computed.statistics.emplace_back(name, values.detach());
    if (carried_to_ == &phase) hand_over({}, nullptr);  // it has been taken
    if (receiver != nullptr) hand_over(std::move(out.carried), receiver);
  }
  return computed;
}

// Makes what the last phase handed over once more, with tensors of its own.
void TrainingStep::hand_over_again(const Phase& to, const RankBatch& batch) {
  hand_over({}, nullptr);
  freeze_all_but(*giver_, &to.player);
  hand_over(std::move(run_micro_batch(*giver_, input_of(*giver_, batch, 0)).carried), &to);
  freeze_all_but(to, nullptr);
}

PhaseComputed TrainingStep::compute_by_graph(const std::string& name,
                                             const Phase& phase,
                                             const RankBatch& batch,
                                             const Phase* receiver) {
  using Way = PhaseGraphs::Way;
  const PhaseGraphs::Inputs inputs{batch.real, batch.labels};
  const bool takes = carried_to_ == &phase;
  // Giver and receiver are recorded together, or both run as they are.
  const auto give_up_pair = [&] {
    graphs_->refuse(giver_name_, phase.name + ", to which it hands over, has no graph");
    if (giver_way_ != Way::kPlain) hand_over_again(phase, batch);
  };
  Way how = graphs_->way(name, inputs);
  if (takes && how != giver_way_) {
    graphs_->refuse(name, giver_->name + ", from which it takes over, runs another way");
    give_up_pair();
    how = Way::kPlain;
  }
  PhaseGraphs::Call call{
      name, takes || receiver != nullptr ? "handed over" : "", state_of(phase.player).active};
  call.plain_again = [&] {
    how = Way::kPlain;
    if (takes) give_up_pair();
  };
  setup_.doing(phase.name + " forward and backward");
  PhaseComputed computed = graphs_->compute(call, inputs, [&](const PhaseGraphs::Inputs& given) {
    RankBatch same = batch;
    same.real = given.real;
    same.labels = given.labels;
    return compute(phase, same, receiver);
  });
  if (receiver != nullptr) {
    if (how == Way::kReplay) hand_over({}, receiver);
    giver_ = &phase;
    giver_name_ = name;
    giver_way_ = how;
  } else if (takes) {
    hand_over({}, nullptr);
  }
  return computed;
}

PhaseReport TrainingStep::run_phase(const Phase& phase, const RankBatch& batch, PhaseSums& sums) {
  PlayerState& state = state_of(phase.player);
  const Phase* receiver = receiver_of(phase, batch.iteration);
  freeze_all_but(phase, receiver == nullptr ? nullptr : phase.hands_to);
  const Traffic before = setup_.group->traffic();
  const std::string name = phase.name + (carried_to_ == &phase ? " taking over" : "") +
                           (receiver != nullptr ? " handing over" : "");
  PhaseReport report{&phase};
  state.player->sync = state.sync.get();
  PhaseComputed computed = graphs_ != nullptr ? compute_by_graph(name, phase, batch, receiver)
                                              : compute(phase, batch, receiver);
  sums.sums = std::move(computed.sums);
  report.losses = std::move(computed.losses);
  report.statistics = std::move(computed.statistics);
  state.sync->finish();
  const Traffic spent = difference(before, setup_.group->traffic());
  report.spent = {spent,
                  state.sync->buckets(),
                  spent.collectives > 0 ? monotonic_seconds() - spent.launched : 0};
  state.player->sync = nullptr;
  setup_.doing(phase.name + " step");
  state.optimizer->move_to(batch.images_seen);
  const auto step = [&state, &phase] {
    GradientVerdict verdict = state.guard->judge(state.active);
    state.optimizer->step(verdict, phase.unreached);
    return verdict;
  };
  report.verdict = graphs_ != nullptr && state.optimizer->replayable()
                       ? graphs_->step(name, state.active, step)
                       : step();
  state.optimizer->clear_gradients();
  return report;
}

void TrainingStep::move_average(int64_t images_seen) {
  average_weight_.move_to(images_seen);
  update_ema(*average_->network(), *recipe_->players().front()->network, average_weight_);
}

StepReport TrainingStep::run(const RankBatch& batch, const RankRequests& mine) {
  set_iteration_(key_, batch.iteration);
  for (DeviceNumber* number : recipe_->numbers()) number->move_to(batch.images_seen);
  StepReport report;
  std::vector<PhaseSums> sums;
  for (const Phase& phase : recipe_->phases()) {
    if (!phase.is_due(batch.iteration)) continue;
    sums.push_back({&phase, {}});
    report.phases.push_back(run_phase(phase, batch, sums.back()));
  }
  setup_.doing("shared statistics");
  const double start = monotonic_seconds();
  report.asked = reduction_->run(sums, mine, batch.iteration);
  report.statistics = recipe_->end_iteration(batch.iteration);
  report.reducing = monotonic_seconds() - start;
  move_average(batch.images_seen);  // it copies the running statistics that were averaged just now
  return report;
}

void TrainingStep::use_precision(const ForwardPrecision& precision) {
  precision_ = precision;
  if (graphs_ != nullptr) graphs_->clear();
}

void TrainingStep::begin() {
  for (PlayerState& state : players_) state.guard->begin();
  reduction_->begin();
}

void TrainingStep::settle() {
  for (PlayerState& state : players_) state.guard->settle();
}

}  // namespace gantrain
