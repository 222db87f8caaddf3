// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan3/recipe.h"

#include <cmath>

#include "augment/ada.h"
#include "core/device_reads.h"
#include "core/forward_precision.h"
#include "core/torch.h"
#include "gan/latents.h"
#include "gan/precision_options.h"
#include "gan/scheduled_number.h"
#include "nn/style/discriminator.h"
#include "nn/style/mapping.h"
#include "nn/style/styles.h"
#include "nn/style/w_average.h"
#include "ops/losses.h"
#include "ops/penalties.h"
#include "ops/upfirdn2d.h"
#include "recipes/stylegan3/generator.h"
#include "recipes/stylegan3/options.h"
#include "recipes/stylegan3/trained_generator.h"
#include "recipes/stylegan3/transfer.h"
#include "util/log.h"

namespace gantrain::stylegan3 {

using at::Tensor;

namespace {

// Calls of the augmentation in one iteration.
int64_t fakes_of(int64_t phase) { return 2 * phase; }
int64_t reals_of(int64_t phase) { return 2 * phase + 1; }

// Whether networks compute in float16 somewhere; then activations are clamped.
bool uses_float16(const RecipeContext& c) {
  const auto precision = c.config.read<PrecisionOptions>("precision.");
  return compute_type(precision, c.device.is_cuda()) == ComputeType::kFloat16;
}
int64_t half_resolutions(const Options& o, const RecipeContext& c) {
  const auto precision = c.config.read<PrecisionOptions>("precision.");
  return uses_float16(c) && precision.mode == PrecisionMode::kBlocks ? o.num_fp16_res : 0;
}

// Configuration R has kernels of one pixel and radial filters, and twice the feature maps instead
// (Karras et al. 2021, sec. 3.2 and app. D).
GeneratorShape generator_shape(const Options& o, const RecipeContext& c) {
  const bool rotates = o.config == Equivariance::kR;
  const auto batch = c.config.get("train.batch").get<double>();
  GeneratorShape shape;
  shape.mapping.z_dim = o.z_dim;
  shape.mapping.c_dim = static_cast<int64_t>(c.class_counts.size());
  shape.mapping.w_dim = o.w_dim;
  shape.mapping.num_layers = o.map_depth;
  shape.mapping.w_avg_beta = o.w_avg_beta;
  SynthesisShape& s = shape.synthesis;
  s.img_resolution = c.resolution.width;
  s.img_channels = c.channels;
  s.channel_base = o.channel_base * (rotates ? 2 : 1);
  s.channel_max = o.channel_max * (rotates ? 2 : 1);
  s.num_layers = o.num_layers;
  s.num_critical = o.num_critical;
  s.margin_size = o.margin;
  s.conv_kernel = rotates ? 1 : 3;
  s.use_radial_filters = rotates;
  s.magnitude_ema_beta = std::exp2(-batch / static_cast<double>(o.magnitude_half_life.images));
  s.num_fp16_res = half_resolutions(o, c);
  s.conv_clamp = uses_float16(c) ? std::optional(o.conv_clamp) : std::nullopt;
  return shape;
}

StyleDiscriminatorShape discriminator_shape(const Options& o, const RecipeContext& c) {
  StyleDiscriminatorShape shape;
  shape.blocks.img_resolution = c.resolution;
  shape.blocks.img_channels = c.channels;
  shape.blocks.channel_base = o.d_channel_base.value_or(o.channel_base);
  shape.blocks.channel_max = o.d_channel_max.value_or(o.channel_max);
  shape.blocks.num_fp16_res = half_resolutions(o, c);
  if (uses_float16(c)) shape.blocks.conv_clamp = o.conv_clamp;
  shape.c_dim = static_cast<int64_t>(c.class_counts.size());
  shape.mbstd_group_size = o.mbstd_group;
  shape.freeze_layers = o.freeze_d;
  return shape;
}

// The sigma of the blur, which goes down in a line.
DeviceNumber blur_of(const Options& o, const at::TensorOptions& like) {
  const auto fade = static_cast<double>(o.blur_fade->images);
  const double first = *o.blur_sigma;
  if (first == 0 || fade == 0) return 0;
  return {[first, fade](int64_t images_seen) {
            return first * std::max(1 - static_cast<double>(images_seen) / fade, 0.0);
          },
          like.dtype(at::kDouble)};
}

class StyleGan3 final : public Recipe {
 public:
  explicit StyleGan3(const RecipeContext& context);

  std::vector<Player*> players() override { return {&G_player_, &D_player_}; }
  const std::vector<Phase>& phases() const override { return phases_; }
  std::vector<AllReducedSum> sums() override;
  std::vector<DeviceNumber*> numbers() override { return {&gamma_, &sigma_, &ada_.number()}; }
  Statistics end_iteration(int64_t iteration) override;
  std::vector<std::string> warnings() override { return ada_.warnings("stylegan3.gamma"); }
  NamedTensors state() override { return ada_.state(); }
  int64_t batch_group() const override { return options_.mbstd_group; }
  TensorNames names_in(const std::map<std::string, Tensor>& file, const Player&) const override {
    return stylegan3::names_in(file, G_net_->shape.synthesis);
  }
  std::vector<std::string> values_that_fit(
      const std::map<std::string, Tensor>& file) const override {
    return stylegan3::values_that_fit(file, options_, G_net_->shape);
  }
  Json model() const override { return to_json(G_net_->shape); }

 private:
  using Loss = PhaseOutput (StyleGan3::*)(const PhaseInput&);
  void add_phase(Player& player, const std::string& name, Cadence cadence, Loss loss);
  Tensor blurred(const Tensor& x) const;
  Tensor scores(const PhaseInput& in, int64_t call, const Tensor& x, const Tensor& c);
  PhaseOutput g_main(const PhaseInput& in);
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
  DeviceNumber gamma_;
  DeviceNumber sigma_;  // of the blur, pixels
};

// Of D's steps d_interval / (d_interval + 1) are the main loss's; G has no penalty.
StyleGan3::StyleGan3(const RecipeContext& context)
    : options_(context.config.read<Options>("")),
      latents_(options_.z_dim, context.class_counts, context.device),
      G_net_(std::make_shared<Generator>(generator_shape(options_, context))),
      D_net_(std::make_shared<StyleDiscriminator>(discriminator_shape(options_, context))),
      G_player_{"G", G_net_, options_.G, {"mapping", "synthesis"}},
      D_player_{
          "D",
          D_net_,
          options_.D,
          {""},
          static_cast<double>(options_.d_interval) / static_cast<double>(options_.d_interval + 1)},
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
  if (!options_.gamma || !options_.blur_sigma || !options_.blur_fade)
    throw std::logic_error("stylegan3.gamma and blur were not chosen: complete()");
  initialise(*G_net_, context.seed);
  initialise_style_layers(*D_net_, "D", context.seed);
  for (const Player* player : {&G_player_, &D_player_}) {
    move_to(*player->network, context.device, context.dtype);
    player->network->train();
  }
  const auto like = at::TensorOptions().device(context.device).dtype(context.dtype);
  gamma_ = on_device(*options_.gamma, like);
  sigma_ = blur_of(options_, like);

  const int64_t turn = options_.D.steps;  // updates of D for one turn of G
  for (int64_t i = 0; i < options_.G.steps; ++i) {
    const std::string name = i == 0 ? "Gmain" : "Gmain" + std::to_string(i + 1);
    add_phase(G_player_, name, {turn, turn - 1}, &StyleGan3::g_main);
  }
  add_phase(D_player_, "Dmain", {}, &StyleGan3::d_main);
  if (gamma_.is_used()) {
    // A penalty that is applied at one of d_interval turns counts that often.
    add_phase(D_player_, "Dreg", {options_.d_interval, 0}, &StyleGan3::d_r1);
    phases_.back().role = Role::kPenalty;
    phases_.back().gain = static_cast<double>(options_.d_interval);
    // The gradient of scores by pictures does not depend on the scores' last bias.
    phases_.back().unreached = {"b4.out.bias"};
  }
}

void StyleGan3::add_phase(Player& player, const std::string& name, Cadence cadence, Loss loss) {
  phases_.push_back(
      {name, player, [this, loss](const PhaseInput& in) { return (this->*loss)(in); }, cadence});
}

// The sums that Dmain and Dreg return over the global batch. In Dmain each part of a batch is
// normalised by the running magnitudes as its own mean squares move them; what the iteration keeps
// are the running magnitudes moved once, by the mean over all ranks and micro-batches. So these are
// the same on every rank.
std::vector<AllReducedSum> StyleGan3::sums() {
  const Tensor w_avg = G_net_->mapping->w_avg;
  const auto move_w = [w_avg, this](const Tensor& sum) {
    move_w_average_(w_avg, mean_of_w(sum), options_.w_avg_beta);
  };
  std::vector<Tensor> magnitudes;
  for (const auto& layer : G_net_->synthesis->layers) magnitudes.push_back(layer->magnitude_ema);
  const auto move = [this](const Tensor& sum) { move_magnitudes_(*G_net_->synthesis, sum); };
  const auto add_signs = [this](const Tensor& sum) { ada_.strength().add(sum); };
  return {{"w_avg", move_w, {w_avg}},
          {"magnitudes", move, magnitudes},
          {"ada", add_signs, {ada_.strength().signs()}}};
}

// Taps 2^-((j / sigma)^2), |j| <= 3 sigma, of sum 1, with zeros around the pictures. The filter has
// the length that it has at the start: its outer taps become 0, so that no shape depends on sigma,
// and at sigma 0 one tap is left.
Tensor StyleGan3::blurred(const Tensor& x) const {
  if (!sigma_.is_used()) return x;
  if (reads_are_free(x.device()) && sigma_.host() == 0) return x;
  const auto reach = static_cast<int64_t>(std::floor(3 * *options_.blur_sigma));
  const Tensor& sigma = sigma_.value();
  const Tensor j = at::arange(-reach, reach + 1, sigma.options());
  const Tensor inside = j.abs() <= (3 * sigma).floor();
  const Tensor taps =
      at::where(inside, (-(j / sigma.clamp_min(1e-30)).square()).exp2(), at::zeros_like(j));
  return filter2d(x, (taps / taps.sum()).to(x.scalar_type()));
}

// D's scores of pictures x, blurred and augmented; `call` tells the calls of an iteration apart.
Tensor StyleGan3::scores(const PhaseInput& in, int64_t call, const Tensor& x, const Tensor& c) {
  return D_(ada_(blurred(x), in.key.of_phase(call), in.samples), c);
}

// -E[log s(D(G(z)))]
PhaseOutput StyleGan3::g_main(const PhaseInput& in) {
  PhaseOutput out;
  const Tensor c = latents_.labels(in);
  const Tensor w = mapping_(latents_.z(in), c);
  const Tensor fake = synthesis_(for_all_layers(w, G_net_->shape.num_ws()));
  const Tensor fake_scores = scores(in, fakes_of(in.key.phase), fake, c);
  out.statistics = {{"Loss/scores/fake", fake_scores}, {"Loss/signs/fake", fake_scores.sign()}};
  out.loss = logistic_g(fake_scores);
  return out;
}

// -E[log s(D(x))] - E[log(1 - s(D(G(z))))]; here the generator's running means move (app. F.1).
PhaseOutput StyleGan3::d_main(const PhaseInput& in) {
  PhaseOutput out;
  const Tensor c = latents_.labels(in);
  const Tensor fake = [&] {
    const torch::NoGradGuard no_grad;
    const Tensor w = mapping_(latents_.z(in), c);
    MagnitudeUpdate magnitudes;
    const Tensor ws = for_all_layers(w, G_net_->shape.num_ws());
    const Tensor pictures = synthesis_(ws, &magnitudes);
    out.sums.emplace_back("w_avg", sum_of_w(w));
    out.sums.emplace_back("magnitudes", sum_of_magnitudes(magnitudes));
    return pictures;
  }();
  const Tensor fake_scores = scores(in, fakes_of(in.key.phase), fake, c);
  const Tensor real_scores = scores(in, reals_of(in.key.phase), in.real, in.labels);
  out.statistics = {{"Loss/scores/fake", fake_scores}, {"Loss/signs/fake", fake_scores.sign()}};
  see_real(real_scores, out);
  out.loss = logistic_d(real_scores, fake_scores);
  return out;
}

// Overfitting shows in the signs of D's scores of real pictures: Karras et al. 2020b, eq. 1.
void StyleGan3::see_real(const Tensor& real_scores, PhaseOutput& out) {
  out.sums.emplace_back("ada", AdaptiveStrength::signs(real_scores));
  out.statistics.emplace_back("Loss/scores/real", real_scores);
  out.statistics.emplace_back("Loss/signs/real", real_scores.sign());
}

// gamma/2 E[|grad D(x)|^2] at the picture before blur and augmentation: Mescheder et al. 2018,
// eq. 9.
PhaseOutput StyleGan3::d_r1(const PhaseInput& in) {
  PhaseOutput out;
  const InputGradients real = input_gradients(
      [&](const Tensor& x) { return scores(in, reals_of(in.key.phase), x, in.labels); }, in.real);
  see_real(real.scores, out);
  out.statistics.emplace_back("Loss/r1_penalty", real.squared_norms);
  out.loss = gamma_.times(real.squared_norms.mean(), 0.5);
  return out;
}

Statistics StyleGan3::end_iteration(int64_t iteration) {
  Statistics now = {{"Progress/augment", ada_.p().clone()}};
  ada_.end_iteration(iteration);
  return now;
}

}  // namespace

RecipeRow row() {
  RecipeRow row{facts()};
  row.make = [](const RecipeContext& context) -> std::unique_ptr<Recipe> {
    return std::make_unique<StyleGan3>(context);
  };
  row.make_generator = make_generator;
  row.recognises = recognises;
  return row;
}

}  // namespace gantrain::stylegan3
