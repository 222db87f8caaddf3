// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/recipe.h"

#include <torch/torch.h>

#include <cmath>

#include "core/forward_precision.h"
#include "gan/precision_options.h"
#include "ops/losses.h"
#include "ops/penalties.h"
#include "recipes/stylegan2/adaptive_strength.h"
#include "recipes/stylegan2/augment.h"
#include "recipes/stylegan2/discriminator.h"
#include "recipes/stylegan2/draws.h"
#include "recipes/stylegan2/generator.h"
#include "recipes/stylegan2/options.h"
#include "recipes/stylegan2/penalties.h"
#include "recipes/stylegan2/trained_generator.h"
#include "util/log.h"

namespace gantrain::stylegan2 {

using at::Tensor;

namespace {

// A lazily regularised network takes i + 1 steps in i iterations: Adam's rate and memory are those
// of i / (i + 1) steps (Karras et al. 2020a, app. B).
PlayerOptions corrected(PlayerOptions o, int64_t interval) {
  const double c = static_cast<double>(interval) / static_cast<double>(interval + 1);
  o.adam.lr *= c;
  o.adam.beta1 = std::pow(o.adam.beta1, c);
  o.adam.beta2 = std::pow(o.adam.beta2, c);
  return o;
}

// Calls of the augmentation in one iteration.
int64_t fakes_of(int64_t phase) { return 2 * phase; }
int64_t reals_of(int64_t phase) { return 2 * phase + 1; }

GeneratorShape generator_shape(const Options& o, const RecipeContext& c) {
  GeneratorShape shape;
  shape.mapping.z_dim = o.z_dim;
  shape.mapping.c_dim = static_cast<int64_t>(c.class_counts.size());
  shape.mapping.w_dim = o.w_dim;
  shape.mapping.num_layers = o.map_depth;
  shape.mapping.w_avg_beta = o.w_avg_beta;
  shape.synthesis.architecture = o.g_architecture;
  shape.synthesis.img_resolution = c.resolution;
  shape.synthesis.img_channels = c.channels;
  shape.synthesis.channel_base = o.channel_base;
  shape.synthesis.channel_max = o.channel_max;
  const auto precision = c.config.read<PrecisionOptions>("precision.");
  if (compute_type(precision, c.device.is_cuda()) == ComputeType::kFloat16) {
    shape.synthesis.conv_clamp = o.conv_clamp;
    if (precision.mode == PrecisionMode::kBlocks) shape.synthesis.num_fp16_res = o.num_fp16_res;
  }
  return shape;
}

DiscriminatorShape discriminator_shape(const Options& o, const RecipeContext& c) {
  DiscriminatorShape shape;
  shape.blocks = generator_shape(o, c).synthesis;
  shape.blocks.architecture = o.d_architecture;
  shape.c_dim = static_cast<int64_t>(c.class_counts.size());
  shape.mbstd_group_size = o.mbstd_group;
  shape.freeze_layers = o.freeze_d;
  return shape;
}

class StyleGan2 final : public Recipe {
 public:
  explicit StyleGan2(const RecipeContext& context);

  std::vector<Player*> players() override { return {&G_player_, &D_player_}; }
  std::vector<Phase>& phases() override { return phases_; }
  std::vector<Shared*> shared() override { return {&w_sums_, &length_sum_, &sign_sum_}; }
  NamedTensors state() override;
  int64_t batch_group() const override { return options_.mbstd_group; }
  Json model() const override { return to_json(G_net_->shape); }

 private:
  using Loss = Tensor (StyleGan2::*)(const Batch&, int64_t phase);
  void add_phase(
      Player& player, const std::string& name, int64_t interval, int64_t turn, Loss loss);
  Tensor styles(const Batch& b, int64_t phase);
  Tensor pictures(const Batch& b, int64_t phase, const Tensor& ws);
  Tensor scores(const Batch& b, int64_t draws, const Tensor& x, const Tensor& c);
  Tensor g_main(const Batch& b, int64_t phase);
  Tensor g_path(const Batch& b, int64_t phase);
  Tensor d_main(const Batch& b, int64_t phase);
  Tensor d_r1(const Batch& b, int64_t phase);
  void see_real(const Tensor& real_scores);
  void move_w_average(int64_t iteration);
  void move_mean_length(int64_t iteration);
  void move_strength(int64_t iteration);

  RecipeContext context_;
  Options options_;
  PhaseDraws draws_;
  std::shared_ptr<Generator> G_net_;
  std::shared_ptr<Discriminator> D_net_;
  Player G_player_, D_player_;
  Handle<Mapping> mapping_;
  Handle<Synthesis> synthesis_;
  Handle<Discriminator> D_;
  std::vector<Phase> phases_;
  std::vector<bool> runs_mapping_;  // of each phase
  AdaptiveStrength strength_;
  Shared w_sums_;       // a row a phase: mean w of its micro-batches, and their number
  Shared length_sum_;   // mean path lengths of micro-batches, and their number
  Shared sign_sum_;     // signs of D's scores of real pictures, and their number
  Tensor mean_length_;  // running mean of path lengths
};

StyleGan2::StyleGan2(const RecipeContext& context)
    : context_(context),
      options_(context.config.read<Options>("")),
      draws_(context.seed, options_.z_dim, context.class_counts),
      G_net_(std::make_shared<Generator>(generator_shape(options_, context))),
      D_net_(std::make_shared<Discriminator>(discriminator_shape(options_, context))),
      G_player_{"G", G_net_, corrected(options_.G, options_.g_interval), {"mapping", "synthesis"}},
      D_player_{"D", D_net_, corrected(options_.D, options_.d_interval)},
      mapping_(G_player_, G_net_->mapping, "mapping"),
      synthesis_(G_player_, G_net_->synthesis, "synthesis"),
      D_(D_player_, D_net_),
      strength_(options_.ada.adaptive, context.config.get("train.batch"), at::kCPU) {
  check_resolution(context.resolution);
  if (!options_.gamma) throw std::logic_error("stylegan2.gamma was not chosen: complete()");
  if (options_.ada.mode != Augmentation::kNone)
    check_augment(options_.augment, context.resolution, context.channels);
  strength_.state()[0].second.fill_(options_.ada.mode == Augmentation::kNone ? 0 : options_.ada.p);
  for (const Player* player : {&G_player_, &D_player_}) {
    initialise(*player->network, player->name, context.seed);
    move_to(*player->network, context.device, context.dtype);
    player->network->train();
  }
  const int64_t turn = options_.D.steps;  // updates of D for one turn of G
  for (int64_t i = 0; i < options_.G.steps; ++i) {
    const std::string name = i == 0 ? "Gmain" : "Gmain" + std::to_string(i + 1);
    add_phase(G_player_, name, turn, turn, &StyleGan2::g_main);
  }
  if (options_.pl_weight > 0)
    add_phase(G_player_, "Greg", options_.g_interval * turn, turn, &StyleGan2::g_path);
  add_phase(D_player_, "Dmain", 1, 1, &StyleGan2::d_main);
  if (*options_.gamma > 0) add_phase(D_player_, "Dreg", options_.d_interval, 1, &StyleGan2::d_r1);

  const auto like = at::TensorOptions().device(context.device).dtype(context.dtype);
  const auto phases = static_cast<int64_t>(phases_.size());
  mean_length_ = torch::zeros({}, like);
  w_sums_ = {"w_avg", torch::zeros({phases, options_.w_dim + 1}, like), [this](int64_t i) {
               move_w_average(i);
             }};
  length_sum_ = {"pl_mean", torch::zeros({2}, like), [this](int64_t i) { move_mean_length(i); }};
  sign_sum_ = {"ada", torch::zeros({2}, like), [this](int64_t i) { move_strength(i); }};
}

void StyleGan2::add_phase(
    Player& player, const std::string& name, int64_t interval, int64_t turn, Loss loss) {
  const auto index = static_cast<int64_t>(phases_.size());
  Phase phase{name, player, interval, turn - 1, [this, loss, index](const Batch& b) {
                return (this->*loss)(b, index);
              }};
  phase.regularises = name == "Greg" || name == "Dreg";
  // A penalty that is applied at every i-th turn counts i times.
  if (phase.regularises) phase.gain = static_cast<double>(interval / turn);
  phases_.push_back(std::move(phase));
  runs_mapping_.push_back(name != "Dreg");
}

NamedTensors StyleGan2::state() {
  NamedTensors all = {{"pl_mean", mean_length_}};
  for (const auto& [name, tensor] : strength_.state()) all.emplace_back("ada/" + name, tensor);
  return all;
}

// w of each layer, two styles mixed with probability options.mixing: Karras et al. 2019, sec. 3.1.
Tensor StyleGan2::styles(const Batch& b, int64_t phase) {
  const auto like = b.real.options();
  const Tensor c = draws_.labels(b, phase, like.device());
  const Tensor w = mapping_(draws_.z(b, phase, 0).to(like), c);
  w_sums_.sum[phase].add_(torch::cat({w.detach().mean(0), torch::ones({1}, like)}));
  const int64_t layers = G_net_->shape.num_ws();
  const int64_t cutoff = draws_.mixing_cutoff(b.iteration, phase, options_.mixing, layers);
  if (cutoff == layers) return for_all_layers(w, layers);
  const Tensor other = mapping_(draws_.z(b, phase, 1).to(like), c);
  return torch::cat({for_all_layers(w, cutoff), for_all_layers(other, layers - cutoff)}, 1);
}

Tensor StyleGan2::pictures(const Batch& b, int64_t phase, const Tensor& ws) {
  return synthesis_(ws, draws_.noise(b, phase, b.real.options()));
}

// D's scores of pictures x, augmented; `call` tells the calls of an iteration apart.
Tensor StyleGan2::scores(const Batch& b, int64_t call, const Tensor& x, const Tensor& c) {
  const double p = strength_.p();
  if (p == 0) return D_(x, c);
  StreamDraws draws({context_.seed, b.iteration, call}, b.samples);
  return D_(augment(x, p, options_.augment, draws), c);
}

// -E[log s(D(G(z)))]
Tensor StyleGan2::g_main(const Batch& b, int64_t phase) {
  const Tensor fake = pictures(b, phase, styles(b, phase));
  const Tensor c = draws_.labels(b, phase, fake.device());
  const Tensor fake_scores = scores(b, fakes_of(phase), fake, c);
  context_.record("Loss/scores/fake", fake_scores);
  context_.record("Loss/signs/fake", fake_scores.sign());
  return logistic_g(fake_scores);
}

// E[(|J_w^T y| - a)^2], a the running mean of the lengths: Karras et al. 2020a, eq. 4. A part of
// the micro-batch is enough (app. B). This phase's own mean moves a before it is used, and takes
// part in the gradient.
Tensor StyleGan2::g_path(const Batch& all, int64_t phase) {
  const AutocastDisabled exact("a penalty", autocast_is_on());
  Batch b = all;
  b.samples.count = std::max(all.samples.count / options_.pl_shrink, int64_t{1});
  const Tensor ws = styles(b, phase);
  const Tensor fake = pictures(b, phase, ws);
  const Tensor y = draws_.picture_noise(b, phase, fake.sizes().slice(1)).to(fake.options());
  const Tensor lengths = path_lengths(fake, ws, y);
  const Tensor mean = lengths.mean();
  length_sum_.sum.add_(torch::stack({mean.detach(), torch::ones_like(mean)}));
  const Tensor target = mean_length_ + options_.pl_decay * (mean - mean_length_);
  const Tensor penalty = (lengths - target).square();
  context_.record("Loss/pl_penalty", penalty);
  return options_.pl_weight * penalty.mean();
}

// -E[log s(D(x))] - E[log(1 - s(D(G(z))))]
Tensor StyleGan2::d_main(const Batch& b, int64_t phase) {
  const Tensor fake = [&] {
    const torch::NoGradGuard no_grad;
    return pictures(b, phase, styles(b, phase));
  }();
  const Tensor c = draws_.labels(b, phase, fake.device());
  const Tensor fake_scores = scores(b, fakes_of(phase), fake, c);
  const Tensor real_scores = scores(b, reals_of(phase), b.real, b.labels);
  context_.record("Loss/scores/fake", fake_scores);
  context_.record("Loss/signs/fake", fake_scores.sign());
  see_real(real_scores);
  return logistic_d(real_scores, fake_scores);
}

// Overfitting shows in the signs of D's scores of real pictures: Karras et al. 2020b, eq. 1.
void StyleGan2::see_real(const Tensor& real_scores) {
  sign_sum_.sum.add_(AdaptiveStrength::signs(real_scores));
  context_.record("Loss/scores/real", real_scores);
  context_.record("Loss/signs/real", real_scores.sign());
}

// gamma/2 E[|grad D(x)|^2] at the picture before its augmentation: Mescheder et al. 2018, eq. 9.
Tensor StyleGan2::d_r1(const Batch& b, int64_t phase) {
  const InputGradients real =
      input_gradients([&](const Tensor& x) { return scores(b, reals_of(phase), x, b.labels); }, b.real);
  see_real(real.scores);
  context_.record("Loss/r1_penalty", real.squared_norms);
  return *options_.gamma / 2 * real.squared_norms.mean();
}

// Once for each phase that ran the mapping network, in their order.
void StyleGan2::move_w_average(int64_t iteration) {
  for (size_t i = 0; i < phases_.size(); ++i) {
    if (!runs_mapping_[i] || !phases_[i].is_due(iteration)) continue;
    const Tensor row = w_sums_.sum[static_cast<int64_t>(i)];
    G_net_->mapping->move_w_avg(row.narrow(0, 0, options_.w_dim) / row[options_.w_dim]);
  }
}

void StyleGan2::move_mean_length(int64_t iteration) {
  for (const Phase& phase : phases_) {
    if (phase.name != "Greg" || !phase.is_due(iteration)) continue;
    mean_length_.lerp_(length_sum_.sum[0] / length_sum_.sum[1], options_.pl_decay);
  }
}

void StyleGan2::move_strength(int64_t iteration) {
  context_.record("Progress/augment", torch::tensor(strength_.p()));
  if (options_.ada.mode != Augmentation::kAda) return;
  strength_.end_iteration(iteration, sign_sum_.sum);
  if (strength_.should_warn()) {
    warn(
        "augmentation p = {:.2f}: from here on it may leak into the pictures; D overfits: more "
        "data, or a larger stylegan2.gamma",
        strength_.p());
  }
}

}  // namespace

RecipeRow row() {
  RecipeRow row;
  row.name = "stylegan2";
  row.make = [](const RecipeContext& context) -> std::unique_ptr<Recipe> {
    return std::make_unique<StyleGan2>(context);
  };
  row.make_generator = make_generator;
  row.recognises = recognises;
  row.wants_labels = [](const Config& config) {
    return config.get("stylegan2.conditional").get<bool>();
  };
  return row;
}

}  // namespace gantrain::stylegan2
