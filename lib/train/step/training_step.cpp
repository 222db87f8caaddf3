// SPDX-License-Identifier: Apache-2.0
#include "train/step/training_step.h"

#include <algorithm>
#include <utility>

#include "core/torch.h"
#include "train/step/mixed_precision.h"
#include "util/error.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

std::unique_ptr<Recipe> make_recipe(const StepSetup& setup, const TrainOptions& train) {
  const RecipeContext context{setup.config,
                              static_cast<uint64_t>(train.seed),
                              setup.resolution,
                              setup.channels,
                              setup.class_counts,
                              setup.device,
                              train.dtype == Dtype::kFloat64 ? at::kDouble : at::kFloat,
                              setup.label_rows};
  return setup.recipe.make(context);
}

TrainOptions train_options(const StepSetup& setup) {
  auto options = setup.config.read<TrainOptions>();
  options.together = setup.recipe.facts.group(setup.config);
  return options;
}

// For tests of what is done about ranks that differ.
void perturb(Recipe& recipe, int64_t rank) {
  const torch::NoGradGuard no_grad;
  for (const Player* player : recipe.players()) {
    for (at::Tensor& p : player->network->parameters()) p.add_(0.1 * static_cast<double>(rank));
  }
}

// A generator in evaluation mode with the weights that training begins with.
std::unique_ptr<Generator> make_average(const StepSetup& setup, Recipe& recipe) {
  const torch::nn::Module& G = *recipe.players().front()->network;
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : state_of(G)) tensors[name] = tensor;
  auto average = setup.recipe.make_generator(recipe.model(), tensors, "the generator");
  to_device(*average->network(), setup.device, G.parameters().front().scalar_type());
  load_into(*average->network(), tensors, "the generator");
  return average;
}

std::vector<at::Tensor> running_statistics(const std::vector<PlayerState>& players) {
  std::vector<at::Tensor> all;
  for (const PlayerState& state : players) {
    for (const StateTensor& item : state_with_kinds(*state.player->network)) {
      if (item.kind == StateKind::kRunningStatistic) all.push_back(item.tensor);
    }
  }
  return all;
}

NamedTensors parameters_of(const torch::nn::Module& network) {
  NamedTensors all;
  for (const auto& item : network.named_parameters()) all.emplace_back(item.key(), item.value());
  return all;
}

void append(StateTensors& all,
            const std::string& prefix,
            const NamedTensors& more,
            StateKind kind) {
  for (const auto& [name, tensor] : more) all.push_back({prefix + name, tensor, kind});
}

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

}  // namespace

TrainingStep::TrainingStep(const StepSetup& setup)
    : setup_(setup),
      train_(train_options(setup)),
      dist_(setup.config.read<DistOptions>()),
      ema_(setup.config.read<EmaOptions>()),
      plan_(plan_batch(train_, setup.group->world())),
      recipe_(make_recipe(setup, train_)),
      key_(make_draw_key(static_cast<uint64_t>(train_.seed), 0, 0, setup.device)) {
  const auto precision = setup.config.read<PrecisionOptions>();
  const GraphChoice graphs = choose_graphs({train_.graphs,
                                            gantrain::records_graphs(setup.device.type()),
                                            dist_,
                                            setup.config.given("dist.ddp_mode"),
                                            setup.group->ranks()});
  why_no_graphs_ = graphs.why_not;
  if (graphs.used) {
    graphs_ = std::make_unique<PhaseGraphs>(setup.device.type(), train_.graphs);
    dist_.ddp_mode = DdpMode::kFlat;  // a reducer's hooks cannot be replayed
    dist_.static_graph = false;
  }
  if (!plan_.equal() && dist_.sync_bn) {
    fail(Exit::kUsage,
         "dist.sync_bn: {} do not divide the batch of {}, and unequal shares have no common batch "
         "statistics; give another --batch or --nproc, or leave it off",
         counted(plan_.world, "rank"),
         plan_.batch);
  }
  if (train_.perturb_ranks) perturb(*recipe_, setup.group->rank());
  average_ = make_average(setup, *recipe_);
  const GuardSettings guards =
      guard_settings(precision, train_, setup.config.read<OptimOptions>(), setup.device);
  players_ = make_players(*recipe_, plan_, dist_, guards, setup.device, setup.group);
  precision_ = forward_precision(precision, setup.device, players_);
  const at::TensorOptions like = players_.front().parameters.front().second.options();
  reduction_ = std::make_unique<IterationReduction>(running_statistics(players_),
                                                    recipe_->sums(),
                                                    like.requires_grad(false),
                                                    setup.group,
                                                    dist_.broadcast_buffers);
  average_weight_ = {
      [this](int64_t images_seen) { return 1 - ema_beta(ema_, images_seen, plan_.batch); },
      like.requires_grad(false)};
  if (ema_.posthoc)
    power_averages_ = std::make_unique<PowerAverages>(
        parameters_of(*recipe_->players().front()->network), kKeptLengths);
}

TrainingStep::~TrainingStep() = default;

void TrainingStep::enter(int64_t number, int64_t batch) {
  const Schedule& schedule = recipe_->schedule();
  if (schedule.empty()) return;
  const Stage& stage = schedule.stages()[static_cast<size_t>(number)];
  plan_ = plan_stage(
      train_, batch == 0 ? stage.batch : batch, setup_.group->world(), schedule.name_of(number));
  if (graphs_ != nullptr) graphs_->clear();
  settle();  // guards name parameters by their numbers among those that were active
  recipe_->enter(stage);
  for (PlayerState& state : players_) {
    state.plan = plan_player(plan_, state.player->name, state.player->options.accumulate);
    state.optimizer->scale_rate(stage.lr_factor);
  }
  rebuild_syncs(players_, dist_, setup_.group);
}

void TrainingStep::cut_into(int64_t micro_batch) {
  TrainOptions cut = train_;
  cut.batch = plan_.batch;
  cut.micro_batch = micro_batch;
  cut.accumulate = std::nullopt;
  const BatchPlan plan = plan_batch(cut, plan_.world);
  TORCH_CHECK(plan.micro_batch == micro_batch, micro_batch, " of ", plan_.text());
  plan_ = plan;
  for (PlayerState& state : players_)
    state.plan = plan_player(plan_, state.player->name, state.player->options.accumulate);
  if (graphs_ != nullptr) graphs_->clear();
}

void TrainingStep::reset_optimizers() {
  for (PlayerState& state : players_) state.optimizer->reset();
}

StateTensors TrainingStep::state() const {
  StateTensors all;
  for (const PlayerState& player : players_) {
    const std::string& name = player.player->name;
    for (const StateTensor& item : state_with_kinds(*player.player->network))
      all.push_back({name + "/" + item.name, item.tensor, item.kind});
    append(all, name + ".opt/", player.optimizer->state(), StateKind::kOptimizer);
    append(all, name + ".amp/", player.guard->state(), StateKind::kOptimizer);
  }
  for (const StateTensor& item : state_with_kinds(*average_->network()))
    all.push_back({"G_ema/" + item.name, item.tensor, item.kind});
  if (power_averages_ != nullptr) {
    for (size_t i = 0; i < kKeptLengths.size(); ++i)
      append(all,
             "G_power" + shortest(kKeptLengths[i]) + "/",
             power_averages_->of(i),
             StateKind::kParameter);
  }
  append(all, "recipe/", recipe_->state(), StateKind::kRecipe);
  return all;
}

std::string TrainingStep::describe_graphs() const {
  if (graphs_ == nullptr) return why_no_graphs_.empty() ? "" : "none: " + why_no_graphs_;
  const char* reduced = setup_.group->world() > 1 ? ", gradients reduced in between, flat" : "";
  return std::string("each phase is recorded after three runs and then replayed") + reduced;
}

std::string TrainingStep::describe_reductions() const { return describe_syncs(players_, dist_); }

Samples micro_batch_samples(const BatchPlan& plan, int64_t rank, int64_t part) {
  const MicroBatch cut = plan.micro_batch_of(rank, part);
  return {cut.first, cut.stride, cut.count};
}

const PlayerState& TrainingStep::state_of(const Player& player) const {
  for (const PlayerState& state : players_) {
    if (state.player == &player) return state;
  }
  throw std::logic_error("phase of an unknown player " + player.name);
}

PlayerState& TrainingStep::state_of(const Player& player) {
  return const_cast<PlayerState&>(std::as_const(*this).state_of(player));
}

// Only the active parameters of the player that steps need gradients, and those of the player whose
// phase continues this one, because the graph of its network is recorded here.
void TrainingStep::freeze_all_but(const Phase& phase, const Phase* continuation) {
  for (PlayerState& state : players_) {
    for (auto& [name, parameter] : state.parameters) parameter.requires_grad_(false);
    const bool recorded = continuation != nullptr && state.player == &continuation->player;
    if (state.player != &phase.player && !recorded) continue;
    for (auto& [name, parameter] : state.active) parameter.requires_grad_(true);
  }
}

// Returns the phase that goes on from this one in that iteration, or null. Both must have a single
// micro-batch.
const Phase* TrainingStep::continuation_of(const Phase& phase, int64_t iteration) const {
  const Phase* next = &phase + 1;
  const std::vector<Phase>& phases = recipe_->phases();
  if (next == phases.data() + phases.size() || !next->continues || !next->is_due(iteration))
    return nullptr;
  const int64_t rank = setup_.group->rank();
  const bool whole =
      state_of(phase.player).plan.parts(rank) == 1 && state_of(next->player).plan.parts(rank) == 1;
  return whole ? next : nullptr;
}

PhaseInput TrainingStep::input_of(const Phase& phase,
                                  const Batch& batch,
                                  int64_t part,
                                  const Ends& ends) const {
  const BatchPlan& plan = state_of(phase.player).plan;
  const auto part_of = [&](const at::Tensor& all) {
    const int64_t parts = plan.parts(setup_.group->rank());
    if (!all.defined() || parts == 1) return all;
    return all.slice(0, part, std::nullopt, parts).contiguous();
  };
  PhaseInput input = rehearsal_input(phase, {part_of(batch.real), part_of(batch.labels)});
  input.samples = micro_batch_samples(plan, setup_.group->rank(), part);
  if (ends.before != nullptr) input.carried = std::exchange(ends.before->carry, {});
  input.continued = ends.after != nullptr;
  return input;
}

// Forward and loss alone: a backward pass computes in the types that they left in the graph.
PhaseOutput TrainingStep::run_micro_batch(const Phase& phase, const PhaseInput& input) const {
  // In wrapper mode, outputs that an earlier phase computed count as a call of their network.
  for (const auto& [name, tensor] : input.carried.tensors) phase.player.called("", tensor);
  const AutocastScope pass(precision_, input.real.device().type(), computed_);
  return phase.run(input);
}

// What the mean over a micro-batch counts for in the sum of this rank, whose mean over ranks is
// that over the global batch.
double TrainingStep::weight_of(const BatchPlan& plan, int64_t part) const {
  const int64_t images = plan.micro_batch_of(setup_.group->rank(), part).count * plan.world;
  return static_cast<double>(images) / static_cast<double>(plan.batch);
}

// Forward and backward passes of all micro-batches.
PhaseComputed TrainingStep::compute(const Phase& phase, const Batch& batch, const Ends& ends) {
  PlayerState& state = state_of(phase.player);
  const int64_t count = state.plan.parts(setup_.group->rank());
  PhaseComputed computed;
  state.optimizer->clear_gradients();
  for (int64_t part = 0; part < count; ++part) {
    state.sync->begin(/*last=*/part + 1 == count);
    setup_.doing(phase.name + " forward");
    PhaseOutput out = run_micro_batch(phase, input_of(phase, batch, part, ends));
    const double factor = state.plan.equal() ? phase.gain / static_cast<double>(count)
                                             : phase.gain * weight_of(state.plan, part);
    const at::Tensor share = factor == 1 ? out.loss : out.loss * factor;
    const at::Tensor loss = state.sync->expect_backward(state.guard->scaled(share));
    setup_.doing(phase.name + " backward");
    loss.backward();
    out.running.apply();
    add(computed.sums, out.sums, batch.real.options());
    computed.losses.push_back(out.loss.detach());
    for (const auto& [name, values] : out.statistics)
      computed.statistics.emplace_back(name, values.detach());
    if (ends.after != nullptr) ends.after->carry = std::move(out.carried);
  }
  return computed;
}

// Two phases of one forward pass are recorded together, or both run as they are. Where the first
// one is a graph and the second one cannot be, the second one computes everything itself.
PhaseComputed TrainingStep::compute_by_graph(const std::string& name,
                                             const Phase& phase,
                                             const Batch& batch,
                                             const Ends& ends) {
  using Way = PhaseGraphs::Way;
  const auto& [before, after] = ends;
  Way way = graphs_->way(name, batch);
  const auto give_up = [&, before = before] {
    way = Way::kPlain;
    if (before == nullptr) return;
    graphs_->refuse(before->graph, phase.name + ", to which it hands over, has no graph");
    if (before->way != Way::kPlain) before->carry = {};
  };
  if (before != nullptr && way != before->way) {
    graphs_->refuse(name, before->phase + ", from which it takes over, runs another way");
    give_up();
  }
  setup_.doing(phase.name + " forward and backward");
  const char* pool = before != nullptr || after != nullptr ? "handed over" : "";
  PhaseComputed computed =
      graphs_->compute({name, pool, state_of(phase.player).active}, batch, [&](const Batch& given) {
        // A recording and a replay read copies: this is neither, so the recording has failed.
        if (way != Way::kPlain && &given == &batch) give_up();
        return compute(phase, given, ends);
      });
  if (ends.after != nullptr) {
    ends.after->graph = name;
    ends.after->way = way;
  }
  return computed;
}

// Ends a phase's reduction; `before` is what the group had sent when the phase began.
PhaseTraffic TrainingStep::reduce(PlayerState& state, const Traffic& before) const {
  state.sync->finish();
  const Traffic spent = difference(before, setup_.group->traffic());
  return {spent,
          state.sync->buckets(),
          spent.collectives > 0 ? monotonic_seconds() - spent.launched : 0,
          waited_in(spent, monotonic_seconds())};
}

PhaseReport TrainingStep::run_phase(const Phase& phase,
                                    const Batch& batch,
                                    const Ends& ends,
                                    PhaseSums& sums) {
  PlayerState& state = state_of(phase.player);
  const double start = monotonic_seconds();
  const Traffic before = setup_.group->traffic();
  const std::string name = phase.name + (ends.before != nullptr ? " taking over" : "") +
                           (ends.after != nullptr ? " handing over" : "");
  PhaseReport report{&phase};
  state.player->sync = state.sync.get();
  PhaseComputed computed =
      graphs_ != nullptr ? compute_by_graph(name, phase, batch, ends) : compute(phase, batch, ends);
  sums.sums = std::move(computed.sums);
  report.losses = std::move(computed.losses);
  report.statistics = std::move(computed.statistics);
  report.spent = reduce(state, before);
  state.player->sync = nullptr;
  setup_.doing(phase.name + " step");
  const auto step = [&state, &phase] {
    GradientVerdict verdict = state.guard->judge(state.active);
    state.optimizer->step(verdict, phase.unreached);
    return verdict;
  };
  report.verdict = graphs_ != nullptr && state.optimizer->replayable()
                       ? graphs_->step(name, state.active, step)
                       : step();
  state.optimizer->clear_gradients();
  report.computed = monotonic_seconds() - start - report.spent.blocked;
  return report;
}

void TrainingStep::begin_iteration(const Position& now) {
  set_iteration_(key_, now.iteration);
  for (DeviceNumber* number : recipe_->numbers()) number->advance_to(now.images_seen);
}

at::Tensor TrainingStep::blank_labels(int64_t count) const {
  if (setup_.label_rows.defined()) return torch::zeros({count, setup_.label_rows.size(1)});
  return setup_.class_counts.empty() ? at::Tensor() : torch::zeros({count}, at::kLong);
}

StepReport TrainingStep::run(const Batch& batch, const Position& now, const RankRequests& mine) {
  begin_iteration(now);
  StepReport report;
  std::vector<PhaseSums> sums;
  std::optional<Left> left;  // by the phase before, where the present one continues it
  for (const Phase& phase : recipe_->phases()) {
    if (!phase.is_due(now.iteration)) continue;
    sums.push_back({&phase, {}});
    const Phase* continuation = continuation_of(phase, now.iteration);
    std::optional<Left> before = std::exchange(left, std::nullopt);
    if (continuation != nullptr) left.emplace().phase = phase.name;
    freeze_all_but(phase, continuation);
    state_of(phase.player).optimizer->advance_to(now.images_seen);
    const Ends ends{before ? &*before : nullptr, left ? &*left : nullptr};
    report.phases.push_back(run_phase(phase, batch, ends, sums.back()));
  }
  setup_.doing("shared statistics");
  const double start = monotonic_seconds();
  report.asked = reduction_->run(sums, mine, now.iteration);
  report.statistics = recipe_->end_iteration(now.iteration);
  report.reducing = monotonic_seconds() - start;
  // It copies the running statistics that were averaged just now.
  average_weight_.advance_to(now.images_seen);
  update_ema(*average_->network(), *recipe_->players().front()->network, average_weight_);
  if (power_averages_ != nullptr) power_averages_->update(now.images_seen, plan_.batch);
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

// Phases tried out without training, to see what they compute in, how long they take, or how much
// memory they need.

// The samples of `batch` as one rank with one micro-batch has them.
PhaseInput TrainingStep::rehearsal_input(const Phase& phase, const Batch& batch) const {
  return {batch, key_.of_phase(&phase - recipe_->phases().data()), {0, 1, batch.real.size(0)}};
}

// Computes the gradients of the phase's player and lets go of them.
void TrainingStep::drop_gradients(const Phase& phase, const PhaseOutput& out) {
  std::vector<at::Tensor> active;
  for (const auto& [name, parameter] : state_of(phase.player).active) active.push_back(parameter);
  torch::autograd::grad({out.loss},
                        active,
                        /*grad_outputs=*/{},
                        /*retain_graph=*/false,
                        /*create_graph=*/false,
                        /*allow_unused=*/true);
}

void TrainingStep::rehearse(const Batch& batch,
                            int64_t images_seen,
                            bool gradients,
                            const AroundPhase& around) {
  begin_iteration({0, images_seen});
  for (const Phase& phase : recipe_->phases()) {
    if (phase.role != Role::kMain) continue;
    freeze_all_but(phase, nullptr);
    around(phase, [&] {
      const PhaseOutput out = run_micro_batch(phase, rehearsal_input(phase, batch));
      if (gradients) drop_gradients(phase, out);
    });
  }
  thaw(players_);
}

void TrainingStep::rehearse_all(const Batch& batch, int64_t images_seen) {
  struct Thaws {  // also where the memory runs out
    std::vector<PlayerState>& players;
    ~Thaws() { thaw(players); }
  } thaws{players_};
  begin_iteration({0, images_seen});
  Carry carried;
  const std::vector<Phase>& phases = recipe_->phases();
  for (size_t i = 0; i < phases.size(); ++i) {
    const Phase* continuation =
        i + 1 < phases.size() && phases[i + 1].continues ? &phases[i + 1] : nullptr;
    setup_.doing(phases[i].name + " rehearsal");
    freeze_all_but(phases[i], continuation);
    PhaseInput input = rehearsal_input(phases[i], batch);
    input.carried = std::exchange(carried, {});
    input.continued = continuation != nullptr;
    PhaseOutput out = run_micro_batch(phases[i], input);
    drop_gradients(phases[i], out);
    if (continuation != nullptr) carried = std::move(out.carried);
  }
}

}  // namespace gantrain
