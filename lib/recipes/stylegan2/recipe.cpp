// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/recipe.h"

#include "augment/ada.h"
#include "core/forward_precision.h"
#include "core/torch.h"
#include "gan/latents.h"
#include "gan/precision_options.h"
#include "gan/scheduled_number.h"
#include "nn/style/discriminator.h"
#include "nn/style/mapping.h"
#include "nn/style/noise.h"
#include "nn/style/styles.h"
#include "nn/style/w_average.h"
#include "ops/losses.h"
#include "ops/penalties.h"
#include "recipes/stylegan2/generator.h"
#include "recipes/stylegan2/options.h"
#include "recipes/stylegan2/trained_generator.h"

namespace gantrain::stylegan2 {

using at::Tensor;

namespace {

// The share of a network's steps that its main loss makes where the network is regularised at every
// interval-th iteration (Player::step_share).
double step_share(int64_t interval) {
  return static_cast<double>(interval) / static_cast<double>(interval + 1);
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

StyleDiscriminatorShape discriminator_shape(const Options& o, const RecipeContext& c) {
  StyleDiscriminatorShape shape;
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
  const std::vector<Phase>& phases() const override { return phases_; }
  std::vector<AllReducedSum> sums() override;
  std::vector<DeviceNumber*> numbers() override { return {&gamma_, &pl_weight_, &ada_.number()}; }
  Statistics end_iteration(int64_t iteration) override;
  std::vector<std::string> warnings() override { return ada_.warnings("stylegan2.gamma"); }
  NamedTensors state() override;
  int64_t batch_group() const override { return options_.mbstd_group; }
  Json model() const override { return to_json(G_net_->shape); }

 private:
  using Loss = PhaseOutput (StyleGan2::*)(const PhaseInput&);
  void add_phase(Player& player, const std::string& name, Cadence cadence, Loss loss);
  // A penalty that is applied at one of `lazily` turns counts that often.
  void add_penalty(
      Player& player, const std::string& name, Cadence cadence, int64_t lazily, Loss loss);
  Tensor styles(const PhaseInput& in, const Tensor& c, Statistics& sums);
  Tensor pictures(const PhaseInput& in, const Tensor& ws);
  Tensor scores(const PhaseInput& in, int64_t call, const Tensor& x, const Tensor& c);
  PhaseOutput g_main(const PhaseInput& in);
  PhaseOutput g_path(const PhaseInput& in);
  PhaseOutput d_main(const PhaseInput& in);
  PhaseOutput d_r1(const PhaseInput& in);
  static void see_real(const Tensor& real_scores, PhaseOutput& out);

  Options options_;
  Latents latents_;
  std::shared_ptr<Generator> G_net_;
  std::shared_ptr<StyleDiscriminator> D_net_;
  Player G_player_, D_player_;
  Handle<StyleMapping> mapping_;
  Handle<Synthesis> synthesis_;
  Handle<StyleDiscriminator> D_;
  std::vector<Phase> phases_;
  Ada ada_;
  DeviceNumber gamma_, pl_weight_;
  Tensor mean_length_;  // running mean of path lengths
};

StyleGan2::StyleGan2(const RecipeContext& context)
    : options_(context.config.read<Options>("")),
      latents_(options_.z_dim, context.class_counts, context.device),
      G_net_(std::make_shared<Generator>(generator_shape(options_, context))),
      D_net_(std::make_shared<StyleDiscriminator>(discriminator_shape(options_, context))),
      G_player_{"G", G_net_, options_.G, {"mapping", "synthesis"}, step_share(options_.g_interval)},
      D_player_{"D", D_net_, options_.D, {""}, step_share(options_.d_interval)},
      mapping_(G_player_, G_net_->mapping, "mapping"),
      synthesis_(G_player_, G_net_->synthesis, "synthesis"),
      D_(D_player_, D_net_),
      ada_(options_.ada,
           options_.augment,
           {context.resolution,
            context.channels,
            context.config.get("train.batch"),
            context.device}) {
  facts().check_resolution(context.resolution);
  if (!options_.gamma) throw std::logic_error("stylegan2.gamma was not chosen: complete()");
  for (const Player* player : {&G_player_, &D_player_}) {
    initialise_style_layers(*player->network, player->name, context.seed);
    move_to(*player->network, context.device, context.dtype);
    player->network->train();
  }
  const auto like = at::TensorOptions().device(context.device).dtype(context.dtype);
  gamma_ = on_device(*options_.gamma, like);
  pl_weight_ = on_device(options_.pl_weight, like);
  mean_length_ = torch::zeros({}, like);

  const int64_t turn = options_.D.steps;  // updates of D for one turn of G
  for (int64_t i = 0; i < options_.G.steps; ++i) {
    const std::string name = i == 0 ? "Gmain" : "Gmain" + std::to_string(i + 1);
    add_phase(G_player_, name, {turn, turn - 1}, &StyleGan2::g_main);
  }
  const int64_t g_interval = options_.g_interval, d_interval = options_.d_interval;
  if (pl_weight_.is_used())
    add_penalty(G_player_, "Greg", {g_interval * turn, turn - 1}, g_interval, &StyleGan2::g_path);
  add_phase(D_player_, "Dmain", {}, &StyleGan2::d_main);
  if (gamma_.is_used())
    add_penalty(D_player_, "Dreg", {d_interval, 0}, d_interval, &StyleGan2::d_r1);
}

void StyleGan2::add_phase(Player& player, const std::string& name, Cadence cadence, Loss loss) {
  phases_.push_back(
      {name, player, [this, loss](const PhaseInput& in) { return (this->*loss)(in); }, cadence});
}

void StyleGan2::add_penalty(
    Player& player, const std::string& name, Cadence cadence, int64_t lazily, Loss loss) {
  add_phase(player, name, cadence, loss);
  phases_.back().role = Role::kPenalty;
  phases_.back().gain = static_cast<double>(lazily);
}

NamedTensors StyleGan2::state() {
  NamedTensors all = {{"pl_mean", mean_length_}};
  for (const auto& [name, tensor] : ada_.state()) all.emplace_back(name, tensor);
  return all;
}

// The sums that phases return over the global batch: w of the mapping network moves its running
// average, path lengths move their running mean, and the signs of D's scores control the
// augmentation.
std::vector<AllReducedSum> StyleGan2::sums() {
  const Tensor w_avg = G_net_->mapping->w_avg;
  const auto move_w = [w_avg, this](const Tensor& sum) {
    move_w_average_(w_avg, mean_of_w(sum), options_.w_avg_beta);
  };
  const auto move_length = [this](const Tensor& sum) {
    mean_length_.lerp_(sum[0] / sum[1], options_.pl_decay);
  };
  const auto add_signs = [this](const Tensor& sum) { ada_.strength().add(sum); };
  return {{"w_avg", move_w, {w_avg}},
          {"pl_mean", move_length, {mean_length_}},
          {"ada", add_signs, {ada_.strength().signs()}}};
}

// The w of each layer; two styles are mixed with probability options.mixing (Karras et al. 2019,
// sec. 3.1).
Tensor StyleGan2::styles(const PhaseInput& in, const Tensor& c, Statistics& sums) {
  const Tensor w = mapping_(latents_.z(in), c);
  sums.emplace_back("w_avg", sum_of_w(w));
  const int64_t layers = G_net_->shape.num_ws();
  const Tensor cutoff = latents_.mixing_cutoff(in, options_.mixing, layers);
  if (known_not_to_mix(cutoff, layers)) return for_all_layers(w, layers);
  return mix_styles(w, mapping_(latents_.z(in, 1), c), cutoff, layers);
}

Tensor StyleGan2::pictures(const PhaseInput& in, const Tensor& ws) {
  return synthesis_(ws, drawn_noise(in.key, in.samples, in.real.options()));
}

// D's scores of pictures x, augmented; `call` tells the calls of an iteration apart.
Tensor StyleGan2::scores(const PhaseInput& in, int64_t call, const Tensor& x, const Tensor& c) {
  return D_(ada_(x, in.key.of_phase(call), in.samples), c);
}

// -E[log s(D(G(z)))]
PhaseOutput StyleGan2::g_main(const PhaseInput& in) {
  PhaseOutput out;
  const Tensor c = latents_.labels(in);
  const Tensor fake = pictures(in, styles(in, c, out.sums));
  const Tensor fake_scores = scores(in, fakes_of(in.key.phase), fake, c);
  out.statistics = {{"Loss/scores/fake", fake_scores}, {"Loss/signs/fake", fake_scores.sign()}};
  out.loss = logistic_g(fake_scores);
  return out;
}

// E[(|J_w^T y| - a)^2], a the running mean of the lengths: Karras et al. 2020a, eq. 4. A part of
// the micro-batch is enough (app. B). This phase's own mean moves a before it is used, and takes
// part in the gradient.
PhaseOutput StyleGan2::g_path(const PhaseInput& all) {
  const AutocastDisabled exact("a penalty", autocast_is_on());
  PhaseInput in = all;
  in.samples.count = std::max(all.samples.count / options_.pl_shrink, int64_t{1});
  PhaseOutput out;
  const Tensor ws = styles(in, latents_.labels(in), out.sums);
  const Tensor fake = pictures(in, ws);
  const Tensor y = normal(in.key, "path", in.samples, fake.sizes().slice(1)).to(fake.options());
  const Tensor lengths = path_lengths(fake, ws, y);
  const Tensor mean = lengths.mean();
  out.sums.emplace_back("pl_mean", torch::stack({mean.detach(), torch::ones_like(mean)}));
  const Tensor target = mean_length_ + options_.pl_decay * (mean - mean_length_);
  const Tensor penalty = (lengths - target).square();
  out.statistics = {{"Loss/pl_penalty", penalty}};
  out.loss = pl_weight_.times(penalty.mean());
  return out;
}

// -E[log s(D(x))] - E[log(1 - s(D(G(z))))]
PhaseOutput StyleGan2::d_main(const PhaseInput& in) {
  PhaseOutput out;
  const Tensor c = latents_.labels(in);
  const Tensor fake = [&] {
    const torch::NoGradGuard no_grad;
    return pictures(in, styles(in, c, out.sums));
  }();
  const Tensor fake_scores = scores(in, fakes_of(in.key.phase), fake, c);
  const Tensor real_scores = scores(in, reals_of(in.key.phase), in.real, in.labels);
  out.statistics = {{"Loss/scores/fake", fake_scores}, {"Loss/signs/fake", fake_scores.sign()}};
  see_real(real_scores, out);
  out.loss = logistic_d(real_scores, fake_scores);
  return out;
}

// Overfitting shows in the signs of D's scores of real pictures: Karras et al. 2020b, eq. 1.
void StyleGan2::see_real(const Tensor& real_scores, PhaseOutput& out) {
  out.sums.emplace_back("ada", AdaptiveStrength::signs(real_scores));
  out.statistics.emplace_back("Loss/scores/real", real_scores);
  out.statistics.emplace_back("Loss/signs/real", real_scores.sign());
}

// gamma/2 E[|grad D(x)|^2] at the picture before its augmentation: Mescheder et al. 2018, eq. 9.
PhaseOutput StyleGan2::d_r1(const PhaseInput& in) {
  PhaseOutput out;
  const InputGradients real = input_gradients(
      [&](const Tensor& x) { return scores(in, reals_of(in.key.phase), x, in.labels); }, in.real);
  see_real(real.scores, out);
  out.statistics.emplace_back("Loss/r1_penalty", real.squared_norms);
  out.loss = gamma_.times(real.squared_norms.mean(), 0.5);
  return out;
}

Statistics StyleGan2::end_iteration(int64_t iteration) {
  Statistics now = {{"Progress/augment", ada_.p().clone()}};
  ada_.end_iteration(iteration);
  return now;
}

}  // namespace

RecipeRow row() {
  RecipeRow row{facts()};
  row.make = [](const RecipeContext& context) -> std::unique_ptr<Recipe> {
    return std::make_unique<StyleGan2>(context);
  };
  row.make_generator = make_generator;
  row.recognises = recognises;
  return row;
}

}  // namespace gantrain::stylegan2
