// SPDX-License-Identifier: Apache-2.0
// How a training step is built, and what changes when a stage of growing begins; what it does is in
// training_step.cpp.
#include "core/torch.h"
#include "train/ema.h"
#include "train/mixed_precision.h"
#include "train/training_step.h"

namespace gantrain {

namespace {

std::unique_ptr<Recipe> make_recipe(const StepSetup& setup, const TrainOptions& train) {
  const RecipeContext context{setup.config,
                              static_cast<uint64_t>(train.seed),
                              setup.resolution,
                              setup.channels,
                              setup.class_counts,
                              setup.device,
                              train.dtype == Dtype::kFloat64 ? at::kDouble : at::kFloat};
  return setup.recipe.make(context);
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
  move_to(*average->network(), setup.device, G.parameters().front().scalar_type());
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

void append(StateTensors& all,
            const std::string& prefix,
            const NamedTensors& more,
            StateKind kind) {
  for (const auto& [name, tensor] : more) all.push_back({prefix + name, tensor, kind});
}

}  // namespace

TrainingStep::TrainingStep(const StepSetup& setup)
    : setup_(setup),
      train_(setup.config.read<TrainOptions>("train.")),
      dist_(setup.config.read<DistOptions>("dist.")),
      ema_(setup.config.read<EmaOptions>("ema.")),
      plan_(plan_batch(train_, setup.group->world())),
      recipe_(make_recipe(setup, train_)),
      key_(make_draw_key(static_cast<uint64_t>(train_.seed), 0, 0, setup.device)) {
  const auto precision = setup.config.read<PrecisionOptions>("precision.");
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
  if (train_.perturb_ranks) perturb(*recipe_, setup.group->rank());
  average_ = make_average(setup, *recipe_);
  const GuardSettings guards =
      guard_settings(precision, train_, setup.config.read<OptimOptions>("optim."), setup.device);
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
  const int64_t share = plan_.batch / plan_.world;
  TORCH_CHECK(micro_batch > 0 && share % micro_batch == 0, micro_batch, " of ", share);
  plan_ = {plan_.batch, plan_.world, micro_batch, share / micro_batch};
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
  append(all, "recipe/", recipe_->state(), StateKind::kRecipe);
  return all;
}

std::string TrainingStep::describe_graphs() const {
  if (graphs_ == nullptr) return why_no_graphs_.empty() ? "" : "none: " + why_no_graphs_;
  const char* reduced = setup_.group->world() > 1 ? ", gradients reduced in between, flat" : "";
  return std::string("each phase is recorded after three runs and then replayed") + reduced;
}

std::string TrainingStep::describe_reductions() const { return describe_syncs(players_, dist_); }

}  // namespace gantrain
