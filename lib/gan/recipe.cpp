// SPDX-License-Identifier: Apache-2.0
#include "gan/recipe.h"

#include <numeric>
#include <stdexcept>

#include "core/torch.h"
#include "distributed/gradient_sync.h"
#include "util/error.h"

namespace gantrain {

Tensor Generator::map(const Tensor&, const Tensor&, const SynthesisOptions&) {
  throw std::logic_error("this generator has no latents of layers");
}

Tensor Generator::synthesize(const Tensor&, const SynthesisOptions&) {
  throw std::logic_error("this generator has no latents of layers");
}

std::vector<std::string> Generator::style_weights(int64_t) const { return {}; }

void Generator::check_labels(const Tensor& labels) const {
  if (classes() > 0 && !labels.defined())
    fail(Exit::kUsage, "the network is conditional: one of its {} classes is needed", classes());
  if (!labels.defined() || labels.dim() == 1 || classes() == 0) return;
  if (!takes_vectors())
    fail(Exit::kUsage, "the network is conditional on one class a picture, not on vectors");
  if (labels.size(1) != classes()) {
    fail(Exit::kUsage,
         "the network is conditional on {} numbers, and a label has {}",
         classes(),
         labels.size(1));
  }
}

void Generator::load(const TensorMap& tensors, const std::string& source) {
  load_into(*network(), tensors, source);
}

Tensor full_size(const Generator& generator, const Tensor& pictures) {
  const std::vector<int64_t> levels = generator.levels();
  const int64_t times = levels.empty() ? 1 : levels.back() / pictures.size(3);
  if (times <= 1) return pictures;
  return pictures.repeat_interleave(times, 2).repeat_interleave(times, 3);
}

void Player::called(const std::string& part, const Tensor& output) const {
  if (sync != nullptr) sync->forwarded(part, output);
}

BlockScope Player::as_block(const std::string& part) const {
  return BlockScope(part.empty() ? name : name + "." + part);
}

PhaseOutput Phase::run(const PhaseInput& input) const {
  RunningStatistics running;
  PhaseOutput output;
  {
    const RunningStatisticsScope noted(running);
    output = loss(input);
  }
  output.running.add(running);
  return output;
}

Tensor without_graph(const std::function<Tensor()>& compute) {
  const torch::NoGradGuard no_grad;
  return compute();
}

std::vector<Phase> alternating_phases(Player& D,
                                      const PhaseLoss& d_loss,
                                      Player& G,
                                      const PhaseLoss& g_loss) {
  std::vector<Phase> phases;
  phases.push_back({"D", D, d_loss});
  const int64_t turn = D.options.steps;
  for (int64_t i = 0; i < G.options.steps; ++i) {
    const std::string name = i == 0 ? "G" : "G" + std::to_string(i + 1);
    phases.push_back({name, G, g_loss, {turn, turn - 1}});
  }
  for (Phase& phase : phases) phase.all_parameters_used = true;
  return phases;
}

Latents::Latents(int64_t z_dim,
                 const std::vector<int64_t>& class_counts,
                 at::Device device,
                 const Tensor& label_rows)
    : z_dim_(z_dim) {
  if (label_rows.defined()) rows_ = label_rows.to(device);
  if (class_counts.empty()) return;
  std::vector<int64_t> sums(class_counts.size());
  std::partial_sum(class_counts.begin(), class_counts.end(), sums.begin());
  pictures_ = sums.back();
  first_above_ = torch::tensor(sums, at::kLong).to(device);
}

Tensor Latents::z(const PhaseInput& in, int64_t which) const {
  return normal(in.key, which == 0 ? "z" : "z/mixed", in.samples, {z_dim_}).to(in.real.options());
}

Tensor Latents::labels(const PhaseInput& in) const {
  if (rows_.defined())
    return rows_.index_select(0, drawn_pictures(in.key, "labels", in.samples, rows_.size(0)));
  if (!first_above_.defined()) return {};
  return drawn_classes(in.key, "labels", in.samples, first_above_, pictures_);
}

Tensor Latents::mixing_cutoff(const PhaseInput& in, double probability, int64_t layers) const {
  return drawn_cutoff(in.key, "mixing", probability, layers);
}

void begin_training(const std::vector<const Player*>& players, const RecipeContext& context) {
  for (const Player* player : players) {
    to_device(*player->network, context.device, context.dtype);
    player->network->train();
  }
}

const Schedule& Recipe::schedule() const {
  static const Schedule one_stage;
  return one_stage;
}

TensorNames Recipe::names_in(const TensorMap&, const Player&) const {
  return [](const std::string& name) { return NameInFile(name); };
}

const RecipeRow& find_recipe(const RecipeTable& recipes,
                             const std::string& name,
                             const std::string& said_by) {
  for (const RecipeRow& row : recipes) {
    if (row.facts.name == name) return row;
  }
  fail(Exit::kInput, "{}recipe {} is not known to this version", said_by, name);
}

}  // namespace gantrain
