// SPDX-License-Identifier: Apache-2.0
#include "gan/style_recipe.h"

#include "core/device.h"
#include "core/torch.h"
#include "gan/augmented_recipe.h"
#include "nn/style/layers.h"
#include "ops/losses.h"
#include "util/error.h"

namespace gantrain {

namespace {

constexpr int64_t kLatentsForMean = 8192;

bool uses_float16(const RecipeContext& c) {
  const auto precision = c.config.read<PrecisionOptions>();
  return compute_type(precision, is_gpu(c.device)) == ComputeType::kFloat16;
}

// Overfitting shows in the signs of D's scores of real pictures: Karras et al. 2020b, eq. 1.
void see_real(const Tensor& real_scores, PhaseOutput& out) {
  out.sums.emplace_back("ada", AdaptiveStrength::signs(real_scores));
  out.statistics.emplace_back("Loss/scores/real", real_scores);
  out.statistics.emplace_back("Loss/signs/real", real_scores.sign());
}

void see_fake(const Tensor& fake_scores, PhaseOutput& out) {
  out.statistics = {{"Loss/scores/fake", fake_scores}, {"Loss/signs/fake", fake_scores.sign()}};
}

}  // namespace

std::optional<double> clamp_of(const StyleOptions& o, const RecipeContext& c) {
  return uses_float16(c) ? std::optional(o.conv_clamp) : std::nullopt;
}

int64_t half_resolutions(const StyleOptions& o, const RecipeContext& c) {
  const auto precision = c.config.read<PrecisionOptions>();
  return uses_float16(c) && precision.mode == PrecisionMode::kBlocks ? o.num_fp16_res : 0;
}

MappingShape mapping_shape(const StyleOptions& o, const RecipeContext& c) {
  MappingShape shape;
  shape.z_dim = o.z_dim;
  shape.c_dim = c.c_dim();
  shape.w_dim = o.w_dim;
  shape.num_layers = o.map_depth;
  shape.w_avg_beta = o.w_avg_beta;
  return shape;
}

StyleDiscriminatorShape discriminator_shape(const StyleOptions& o, const RecipeContext& c) {
  StyleDiscriminatorShape shape;
  shape.blocks.img_resolution = c.resolution;
  shape.blocks.img_channels = c.channels;
  shape.blocks.channel_base = o.channel_base;
  shape.blocks.channel_max = o.channel_max;
  shape.blocks.num_fp16_res = half_resolutions(o, c);
  shape.blocks.conv_clamp = clamp_of(o, c);
  shape.c_dim = c.c_dim();
  shape.mbstd_group_size = o.mbstd_group;
  shape.freeze_layers = o.freeze_d;
  return shape;
}

Json known_arguments(const Json& arguments, const Json& known, const std::string& name) {
  if (!arguments.is_object()) fail(Exit::kInput, "{} is no dict", name);
  Json kept = Json::object();
  for (const auto& [key, value] : arguments.items()) {
    if (key == "fused_modconv_default" || key == "fp16_channels_last") continue;
    if (!known.contains(key))
      fail(Exit::kInput, "{}.{} = {}: not known here", name, key, value.dump());
    if (known[key].is_null()) {
      kept[key] = value;
    } else if (value != known[key]) {
      fail(Exit::kInput,
           "{}.{} = {}: only {} is supported",
           name,
           key,
           value.dump(),
           known[key].dump());
    }
  }
  for (const char* key : {"embed_features", "layer_features"}) {
    if (kept.contains(key) && kept[key].is_null()) kept.erase(key);
  }
  return kept;
}

Json known_arguments(const Json& arguments,
                     const Json& known,
                     const PickledGenerator& generator,
                     const char* group) {
  return known_arguments(
      arguments, known, fmt::format("{}: {}: {}", generator.source, generator.name, group));
}

Json mapping_arguments(const PickledGenerator& generator) {
  static const Json known = {{"num_layers", nullptr},
                             {"embed_features", nullptr},
                             {"layer_features", nullptr},
                             {"activation", "lrelu"},
                             {"lr_multiplier", nullptr},
                             {"w_avg_beta", nullptr}};
  return known_arguments(generator.arguments.value("mapping_kwargs", Json::object()),
                         known,
                         generator,
                         "mapping_kwargs");
}

StyleRecipe::StyleRecipe(const RecipeContext& context,
                         const RecipeFacts& facts,
                         const StyleOptions& o,
                         const StyleNetworks& networks,
                         double g_share)
    : latents_(o.z_dim, context.class_counts, context.device, context.label_rows),
      D_net_(networks.D),
      G_player_{"G", networks.G, o.G, {"mapping", "synthesis"}, g_share},
      D_player_{"D", D_net_, o.D, {""}, main_step_share(o.d_interval)},
      mapping_(G_player_, networks.mapping, "mapping"),
      D_(D_player_, D_net_),
      ada_(o.ada, o.augment, o.augmentation, augmented_pictures(context)),
      gamma_key_(facts.name + ".gamma"),
      w_avg_beta_(o.w_avg_beta),
      d_interval_(o.d_interval) {
  facts.check_resolution(context.resolution);
  if (!o.gamma) throw std::logic_error(gamma_key_ + " was not chosen: complete()");
  initialise_style_layers(*D_net_, "D", context.seed);
  begin_training({&G_player_, &D_player_}, context);
  gamma_ = on_device(*o.gamma, context.tensors());
}

void StyleRecipe::add_g_main() {
  const int64_t turn = D_player_.options.steps;  // updates of D for one turn of G
  for (int64_t i = 0; i < G_player_.options.steps; ++i) {
    const std::string name = i == 0 ? "Gmain" : "Gmain" + std::to_string(i + 1);
    phases_.push_back(
        {name, G_player_, [this](const PhaseInput& in) { return g_main(in); }, {turn, turn - 1}});
  }
}

void StyleRecipe::add_d_phases(const std::vector<std::string>& unreached) {
  phases_.push_back({"Dmain", D_player_, [this](const PhaseInput& in) { return d_main(in); }});
  if (!gamma_.is_used()) return;
  add_penalty(D_player_, "Dreg", {d_interval_, 0}, d_interval_, [this](const PhaseInput& in) {
    return d_r1(in);
  });
  phases_.back().unreached = unreached;
}

void StyleRecipe::add_penalty(
    Player& player, const std::string& name, Cadence cadence, int64_t lazily, PhaseLoss loss) {
  phases_.push_back({name, player, std::move(loss), cadence, Role::kPenalty});
  phases_.back().gain = static_cast<double>(lazily);
}

AllReducedSum StyleRecipe::sum_of_styles() const {
  const Tensor w_avg = mapping_->w_avg;
  const auto move = [w_avg, beta = w_avg_beta_](const Tensor& sum) {
    move_w_average_(w_avg, mean_of_w(sum), beta);
  };
  return {"w_avg", move, {w_avg}};
}

AllReducedSum StyleRecipe::sum_of_signs() {
  const auto add = [this](const Tensor& sum) { ada_.strength().add(sum); };
  return {"ada", add, {ada_.strength().signs()}};
}

// D's scores of pictures x, augmented; `call` tells the calls of an iteration apart.
Tensor StyleRecipe::scores(const PhaseInput& in, int64_t call, const Tensor& x, const Tensor& c) {
  return D_(ada_(before_augmentation(x), in.key.of_phase(call), in.samples), c);
}

// -E[log s(D(G(z)))]
PhaseOutput StyleRecipe::g_main(const PhaseInput& in) {
  PhaseOutput out;
  const Tensor c = latents_.labels(in);
  const Tensor fake = fakes_for_G(in, c, out.sums);
  const Tensor fake_scores = scores(in, fakes_of(in.key.phase), fake, c);
  see_fake(fake_scores, out);
  out.loss = logistic_g(fake_scores);
  return out;
}

// -E[log s(D(x))] - E[log(1 - s(D(G(z))))]
PhaseOutput StyleRecipe::d_main(const PhaseInput& in) {
  PhaseOutput out;
  const Tensor c = latents_.labels(in);
  const Tensor fake = without_graph([&] { return fakes_for_D(in, c, out.sums); });
  const Tensor fake_scores = scores(in, fakes_of(in.key.phase), fake, c);
  const Tensor real_scores = scores(in, reals_of(in.key.phase), in.real, in.labels);
  see_fake(fake_scores, out);
  see_real(real_scores, out);
  out.loss = logistic_d(real_scores, fake_scores);
  return out;
}

// gamma/2 E[|grad D(x)|^2] at the picture before what D sees of it: Mescheder et al. 2018, eq. 9.
PhaseOutput StyleRecipe::d_r1(const PhaseInput& in) {
  PhaseOutput out;
  const InputGradients real = input_gradients(
      [&](const Tensor& x) { return scores(in, reals_of(in.key.phase), x, in.labels); }, in.real);
  see_real(real.scores, out);
  out.statistics.emplace_back("Loss/r1_penalty", real.squared_norms);
  out.loss = gamma_.times(real.squared_norms.mean(), 0.5);
  return out;
}

Statistics StyleRecipe::end_iteration(int64_t iteration) {
  Statistics now = {{"Progress/augment", ada_.p().clone()}};
  ada_.end_iteration(iteration);
  return now;
}

TrainedStyleGenerator::TrainedStyleGenerator(std::shared_ptr<torch::nn::Module> net,
                                             std::shared_ptr<StyleMapping> mapping,
                                             int64_t num_ws)
    : net_(std::move(net)), mapping_(std::move(mapping)), num_ws_(num_ws) {
  net_->eval();
}

Tensor TrainedStyleGenerator::images(const Tensor& z,
                                     const Tensor& labels,
                                     const SynthesisOptions& options) {
  return synthesize(map(z, labels, options), options);
}

Tensor TrainedStyleGenerator::map(const Tensor& z,
                                  const Tensor& labels,
                                  const SynthesisOptions& options) {
  const torch::AutoGradMode gradients(options.gradients);
  check_labels(labels);
  const Tensor ws = for_all_layers(mapping_->forward(z, labels), num_ws_);
  return truncated(ws, mapping_->w_avg, options.trunc, options.trunc_cutoff);
}

void TrainedStyleGenerator::load(const TensorMap& tensors, const std::string& source) {
  TensorMap all = tensors;
  for (const auto& [name, fresh] : state_of(*net_)) {
    if (all.count(name) != 0) continue;
    const Tensor value = name == "mapping.w_avg" ? fresh : made(name, fresh);
    if (value.defined()) all[name] = value;
  }
  load_into(*net_, all, source);
  if (tensors.count("mapping.w_avg") == 0) mapping_->w_avg.copy_(mean_w());
}

Tensor TrainedStyleGenerator::mean_w() const {
  const torch::NoGradGuard no_grad;
  const Tensor z = normal(Stream(0, "w_avg"), {0, 1, kLatentsForMean}, {z_dim()});
  const Tensor labels =
      classes() > 0 ? torch::arange(kLatentsForMean).remainder(classes()) : Tensor();
  return mapping_->forward(z, labels).mean(0);
}

}  // namespace gantrain
