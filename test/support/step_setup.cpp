// SPDX-License-Identifier: Apache-2.0
#include "support/step_setup.h"

#include "core/torch.h"
#include "data/options.h"
#include "distributed/options.h"
#include "gan/options.h"
#include "train/options.h"

namespace gantrain {

namespace {

struct Header {
  std::string preset;
  std::string recipe;
};
template <class Field>
void fields(Header& o, Field&& field) {
  field("preset", o.preset, "name");
  field("recipe", o.recipe, "name");
}

}  // namespace

Config step_config(const RecipeFacts& facts, const std::map<std::string, Json>& changes) {
  Schema schema;
  add_keys<Header>(schema);
  add_keys<TrainOptions>(schema);
  add_keys<DataOptions>(schema);
  add_keys<EmaOptions>(schema);
  add_keys<DistOptions>(schema);
  add_keys<PrecisionOptions>(schema);
  add_keys<OptimOptions>(schema);
  add_keys<RunOptions>(schema);
  add_keys<SaveOptions>(schema);
  add_keys<ModelOptions>(schema);
  add_keys<SampleOptions>(schema);
  add_keys<MetricsOptions>(schema);
  facts.add_keys(schema);
  Config config(schema);
  for (const auto& [key, value] : changes) config.set(key, value, "test");
  return config;
}

std::shared_ptr<Group> join_on_cpu(const Rendezvous& rendezvous) {
  return Group::join(rendezvous, BackendKind::kGloo, at::kCPU, /*timeout_seconds=*/60);
}

StepOnCpu::StepOnCpu(const RecipeRow& row,
                     const Config& config,
                     const Rendezvous& rendezvous,
                     const std::vector<int64_t>& class_counts,
                     const Doing& doing,
                     const at::Tensor& label_rows)
    : StepOnCpu(join_on_cpu(rendezvous), row, config, class_counts, doing, label_rows) {}

StepOnCpu::StepOnCpu(std::shared_ptr<Group> group,
                     const RecipeRow& row,
                     const Config& config,
                     const std::vector<int64_t>& class_counts,
                     const Doing& doing,
                     const at::Tensor& label_rows)
    : config_(config), row_(row), group_(std::move(group)) {
  const auto data = config_.read<DataOptions>();
  step_ = std::make_unique<TrainingStep>(StepSetup{config_,
                                                   row_,
                                                   group_,
                                                   at::kCPU,
                                                   data.resolution,
                                                   data.channels.value_or(3),
                                                   class_counts,
                                                   doing,
                                                   /*depth=*/8,
                                                   label_rows});
}

const PlayerState& StepOnCpu::player(const std::string& name) const {
  for (const PlayerState& state : step_->players()) {
    if (state.player->name == name) return state;
  }
  throw std::logic_error("no player " + name);
}

StepReport StepOnCpu::run(const GlobalBatch& batch, const RankRequests& mine) {
  const at::ScalarType dtype = step_->players().front().parameters.front().second.scalar_type();
  const auto share = [this](const at::Tensor& all) {
    if (!all.defined()) return all;
    return all.slice(0, group_->rank(), std::nullopt, group_->world()).contiguous();
  };
  return step_->run(
      {share(batch.pictures.to(dtype)), share(batch.labels)},
      {batch.iteration, batch.images_seen.value_or(batch.iteration * step_->plan().batch)},
      mine);
}

NamedTensors StepOnCpu::state() const {
  NamedTensors copies;
  for (const StateTensor& item : step_->state())
    copies.emplace_back(item.name, item.tensor.detach().clone());
  return copies;
}

void StepOnCpu::load(const NamedTensors& state) {
  const torch::NoGradGuard no_grad;
  const StateTensors own = step_->state();
  TORCH_CHECK(own.size() == state.size());
  for (size_t i = 0; i < own.size(); ++i) {
    TORCH_CHECK(own[i].name == state[i].first, own[i].name, " is not ", state[i].first);
    at::Tensor tensor = own[i].tensor;
    tensor.copy_(state[i].second);
  }
  step_->begin();
}

PhaseInput whole_batch(const Recipe& recipe,
                       const Phase& phase,
                       const GlobalBatch& batch,
                       uint64_t seed) {
  PhaseInput input;
  input.real = batch.pictures;
  input.labels = batch.labels;
  input.key = make_draw_key(
      seed, batch.iteration, &phase - recipe.phases().data(), batch.pictures.device());
  input.samples = {0, 1, batch.pictures.size(0)};
  return input;
}

namespace {

using Named = std::map<std::string, at::Tensor>;

// What a phase could leave something in.
Named kept_by(Recipe& recipe) {
  Named all;
  for (Player* player : recipe.players()) {
    for (const auto& [name, tensor] : state_of(*player->network))
      all[player->name + "." + name] = tensor.detach().clone();
  }
  for (const auto& [name, tensor] : recipe.state()) all["state " + name] = tensor.detach().clone();
  return all;
}

// Running statistics as they are once `running` has been applied; they are put back.
void note_running(Recipe& recipe,
                  const std::string& prefix,
                  const RunningStatistics& running,
                  Named& all) {
  const torch::NoGradGuard no_grad;
  for (Player* player : recipe.players()) {
    for (const auto& item : player->network->named_buffers())
      all["kept " + player->name + "." + item.key()] = item.value().clone();
  }
  running.apply();
  for (Player* player : recipe.players()) {
    for (const auto& item : player->network->named_buffers()) {
      const std::string name = player->name + "." + item.key();
      all[prefix + name] = item.value().clone();
      at::Tensor buffer = item.value();
      // A graph may hold buffers that did not move.
      if (!torch::equal(buffer, all.at("kept " + name))) buffer.copy_(all.at("kept " + name));
    }
  }
}

// Everything that comes of one call, gradients included.
Named outcome_of(Recipe& recipe,
                 const Phase& phase,
                 const PhaseInput& input,
                 const ForwardPrecision& precision) {
  Named all;
  const PhaseOutput out = [&] {
    const AutocastScope pass(precision, input.real.device().type());
    return phase.run(input);
  }();
  all["loss"] = out.loss.detach().clone();
  for (const auto& [name, tensor] : out.statistics) all[name] = tensor.detach().clone();
  for (const auto& [name, tensor] : out.sums) all["sum " + name] = tensor.detach().clone();
  for (const auto& [name, tensor] : out.carried.tensors)
    all["carried " + name] = tensor.detach().clone();
  note_running(recipe, "running ", out.running, all);
  note_running(recipe, "carried running ", out.carried.running, all);
  out.loss.backward({}, /*retain_graph=*/true);
  for (Player* player : recipe.players()) {
    for (const auto& item : player->network->named_parameters()) {
      at::Tensor parameter = item.value();
      if (parameter.grad().defined())
        all["gradient " + player->name + "." + item.key()] = parameter.grad().clone();
      parameter.mutable_grad() = at::Tensor();
    }
  }
  return all;
}

void compare(const Named& a, const Named& b, std::vector<std::string>& differing) {
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    const bool same = other != b.end() && at::allclose(tensor, other->second, 0, 0, true);
    if (!same) differing.push_back(name);
  }
  for (const auto& [name, tensor] : b) {
    if (a.count(name) == 0) differing.push_back(name);
  }
}

}  // namespace

std::vector<std::string> differences_when_run_twice(Recipe& recipe,
                                                    const Phase& phase,
                                                    const PhaseInput& input,
                                                    const ForwardPrecision& precision) {
  const Named before = kept_by(recipe);
  const Named first = outcome_of(recipe, phase, input, precision);
  const Named second = outcome_of(recipe, phase, input, precision);
  std::vector<std::string> differing;
  compare(first, second, differing);
  compare(before, kept_by(recipe), differing);
  return differing;
}

namespace {

class Silent final : public Generator {
 public:
  explicit Silent(std::shared_ptr<torch::nn::Module> network) : network_(std::move(network)) {
    network_->eval();
  }
  std::shared_ptr<torch::nn::Module> network() override { return network_; }
  int64_t z_dim() const override { return 1; }
  at::Tensor images(const at::Tensor&, const at::Tensor&, const SynthesisOptions&) override {
    throw std::logic_error("this generator draws nothing");
  }

 private:
  std::shared_ptr<torch::nn::Module> network_;
};

}  // namespace

std::unique_ptr<Generator> silent_generator(std::shared_ptr<torch::nn::Module> network) {
  return std::make_unique<Silent>(std::move(network));
}

}  // namespace gantrain
