// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan1/recipe.h"

#include "core/tensors.h"
#include "core/torch.h"
#include "gan/growing_recipe.h"
#include "gan/synthesis_options.h"
#include "nn/style/layers.h"
#include "nn/style/styles.h"
#include "ops/losses.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain::stylegan1 {

using at::Tensor;

DiscriminatorLoss d_loss(const Discriminate& D,
                         const Tensor& real,
                         const Tensor& fake,
                         const Tensor& t,
                         const PenaltyWeights& weights,
                         const LossOptions& o,
                         int64_t resolution) {
  const double scale = gradient_scale(o.penalty_size, real.size(3), resolution);
  switch (o.kind) {
    case Loss::kLogistic:
    case Loss::kSaturating:
      return logistic_zero_centred_d(D, real, fake, {weights.r1, weights.r2, scale});
    case Loss::kWganGp:
      return wgan_gp_d(D, real, fake, t, {weights.gp, o.gp_target, o.drift, scale});
    case Loss::kHinge: {
      DiscriminatorLoss d;
      d.real_scores = D(real);
      d.fake_scores = D(fake);
      d.loss = hinge_d(d.real_scores, d.fake_scores);
      return d;
    }
  }
  throw std::logic_error("no such loss");
}

Tensor g_loss(const Tensor& fake_scores, const LossOptions& o) {
  switch (o.kind) {
    case Loss::kLogistic:
      return logistic_g(fake_scores);
    case Loss::kSaturating:
      return saturating_logistic_g(fake_scores);
    case Loss::kWganGp:
    case Loss::kHinge:
      return wasserstein_g(fake_scores);
  }
  throw std::logic_error("no such loss");
}

namespace {

class TrainedGenerator final : public gantrain::Generator {
 public:
  explicit TrainedGenerator(const Shape& shape)
      : net_(std::make_shared<stylegan1::Generator>(shape)) {
    net_->eval();
  }

  std::shared_ptr<torch::nn::Module> network() override { return net_; }
  int64_t z_dim() const override { return net_->shape.net.latent_size; }
  int64_t classes() const override { return net_->shape.label_size; }
  int64_t num_ws() const override { return net_->num_ws(); }
  int64_t w_dim() const override { return net_->shape.net.dlatent_size; }
  bool has_noise() const override { return true; }
  std::vector<int64_t> levels() const override { return levels_up_to(net_->shape.resolution); }

  Tensor images(const Tensor& z, const Tensor& labels, const SynthesisOptions& options) override {
    return synthesize(map(z, labels, options), options);
  }

  Tensor map(const Tensor& z, const Tensor& labels, const SynthesisOptions& options) override {
    const torch::AutoGradMode gradients(options.gradients);
    const Tensor classes = labels.defined() ? labels.to(average().device()) : labels;
    const Tensor w = net_->mapping->forward(z.to(average().options()), classes);
    return truncated(for_all_layers(w, num_ws()), average(), options.trunc, options.trunc_cutoff)
        .to(torch::kFloat);
  }

  Tensor synthesize(const Tensor& ws, const SynthesisOptions& options) override {
    const torch::AutoGradMode gradients(options.gradients);
    TORCH_CHECK(ws.dim() == 3 && ws.size(1) == num_ws() && ws.size(2) == w_dim(),
                "latents of the layers are [N, ",
                num_ws(),
                ", ",
                w_dim(),
                "], not ",
                ws.sizes());
    const StageLevel level{level_of(options, levels()), options.alpha};
    const NoiseInputs noise = noise_of(options, ws.size(0));
    return net_->synthesis->forward(ws.to(average().options()), level, noise).to(torch::kFloat);
  }

 private:
  const Tensor& average() const { return net_->dlatent_avg; }

  NoiseInputs noise_of(const SynthesisOptions& options, int64_t count) const {
    switch (options.noise) {
      case NoiseMode::kConst:
        return stored_noise();
      case NoiseMode::kRandom:
        return drawn_noise(make_draw_key(options.noise_seed, 0, 0, average().device()),
                           {0, 1, count},
                           average().options());
      case NoiseMode::kNone:
        return no_noise();
    }
    throw std::logic_error("no such noise mode");
  }

  std::shared_ptr<stylegan1::Generator> net_;
};

// What `model` says, and what it leaves to the tensors.
Shape whole_shape(const Json& model,
                  const std::map<std::string, Tensor>& tensors,
                  const std::string& source) {
  Shape shape = generator_shape(tensors, source);
  read_model(model, source, shape);
  return shape;
}

}  // namespace

Json model_of(const Shape& shape) { return model_json("stylegan1", shape); }

std::unique_ptr<gantrain::Generator> make_generator(const Json& model,
                                                    const std::map<std::string, Tensor>& tensors,
                                                    const std::string& source) {
  return std::make_unique<TrainedGenerator>(whole_shape(model, tensors, source));
}

bool recognises(const std::map<std::string, Tensor>& tensors) {
  return tensors.count("mapping.Dense0.weight") != 0 &&
         tensors.count("synthesis.4x4.Const.const") != 0;
}

namespace {

// Prefixes of the official networks' variables, and those of our tensors.
constexpr std::array<std::pair<const char*, const char*>, 4> kParts = {{
    {"G_mapping/", "mapping."},
    {"G_synthesis/", "synthesis."},
    {"G/", ""},
    {"D/", "D."},
}};

std::optional<bool> fused_scale_of(const Json& config, const std::string& source) {
  if (!config.contains("fused_scale") || config["fused_scale"].is_null()) return std::nullopt;
  const auto value = Value<std::optional<bool>>::from_text(text_of(config["fused_scale"]));
  if (!value)
    fail(Exit::kInput,
         "{}: fused_scale = {} in the network's configuration; true, false or \"auto\" is needed",
         source,
         config["fused_scale"].dump());
  return *value;
}

// "128x128/Conv0_up/weight" -> 128.
int64_t pixels_of(const std::string& variable) {
  return parse_int(variable.substr(0, variable.find('x'))).value_or(0);
}

bool is_part(const std::string& name) {
  for (const auto& [official, own] : kParts) {
    if (starts_with(name, official)) return true;
  }
  return false;
}

}  // namespace

LayoutOf layouts(std::optional<bool> fused_scale) {
  return [fused_scale](const std::string& variable, const Tensor& value) {
    if (ends_with(variable, "LabelConcat/weight")) return TfLayout::kSame;
    if (value.dim() == 2) return TfLayout::kDense;
    if (value.dim() != 4 || !ends_with(variable, "/weight")) return TfLayout::kSame;
    const bool up = ends_with(variable, "Conv0_up/weight");
    const bool fused = up && fused_scale.value_or(pixels_of(variable) >= 128);
    return fused ? TfLayout::kMirroredConv : TfLayout::kConv;
  };
}

ModelContent import_official(const TensorFile& file, const std::string& source) {
  const Json config = official_arguments(file, source);
  const LayoutOf layout = layouts(fused_scale_of(config, source));
  TensorMap all;
  for (const auto& [name, value] : file.tensors) {
    if (!is_part(name))
      fail(Exit::kInput,
           "{}: tensor {} is no variable of G_mapping/, G_synthesis/, G/ or D/",
           source,
           name);
  }
  for (const auto& [official, own] : kParts)
    all.merge(from_official(file.tensors, official, own, layout));
  Shape shape = generator_shape(all, source);
  read_model(config, source, shape);
  const Generator net(shape);
  load_into(net, all, source);
  ModelContent model{model_of(shape), {}};
  for (const auto& [name, value] : state_of(net)) model.tensors[name] = value.detach();
  for (const auto& [name, value] : all) {
    // "lod" is the official networks' growth level, a counter that is no weight.
    if (name == "synthesis.lod" || name == "D.lod") continue;
    if (starts_with(name, "D.")) {
      model.tensors[name] = value;
    } else if (model.tensors.count(name) == 0) {
      fail(Exit::kInput, "{}: tensor {} is none of this network's", source, name);
    }
  }
  return model;
}

TensorMap export_official(const TensorMap& tensors, std::optional<bool> fused_scale) {
  const LayoutOf layout = layouts(fused_scale);
  TensorMap variables;
  TensorMap whole;  // what belongs to no part: dlatent_avg
  for (const auto& [name, value] : tensors) {
    if (name.find('.') == std::string::npos) whole[name] = value;
  }
  for (const auto& [official, own] : kParts) {
    const bool part = *own != '\0';
    variables.merge(to_official(part ? tensors : whole, own, official, layout));
  }
  return variables;
}

namespace {

Shape shape_of(const Options& o, const RecipeContext& c) {
  return {c.resolution.width, c.channels, static_cast<int64_t>(c.class_counts.size()), o.net};
}

std::shared_ptr<Generator> make_network(const Options& o, const RecipeContext& c) {
  auto G = std::make_shared<Generator>(shape_of(o, c));
  initialise(*G, "G", c.seed);
  return G;
}

class StyleGan1 final : public GrowingRecipe {
 public:
  explicit StyleGan1(const RecipeContext& context)
      : StyleGan1(context, context.config.read<Options>()) {}

  std::vector<AllReducedSum> sums() override;
  std::vector<DeviceNumber*> numbers() override {
    return {&alpha_, &weights_.r1, &weights_.r2, &weights_.gp};
  }
  Json model() const override { return model_of(G_net_->shape); }

 private:
  StyleGan1(const RecipeContext& context, const Options& options)
      : StyleGan1(context, options, make_network(options, context)) {}
  StyleGan1(const RecipeContext& context,
            const Options& options,
            const std::shared_ptr<Generator>& G);
  // Makes pictures of the present level, and adds the w that the mapping network computed to the
  // sums.
  Tensor pictures(const PhaseInput& in, const Tensor& labels, Statistics& sums);
  PhaseOutput d_loss(const PhaseInput& in) override;
  PhaseOutput g_loss(const PhaseInput& in) override;

  Options options_;
  Latents latents_;
  std::shared_ptr<Generator> G_net_;
  Handle<Mapping> mapping_;
  Handle<Synthesis> synthesis_;
  PenaltyWeights weights_;
};

StyleGan1::StyleGan1(const RecipeContext& context,
                     const Options& options,
                     const std::shared_ptr<Generator>& G)
    : GrowingRecipe(context,
                    options.schedule,
                    {"G", G, options.G, {"mapping", "synthesis"}},
                    discriminator_shape(G->shape),
                    options.D),
      options_(options),
      latents_(options.net.latent_size, context.class_counts, context.device),
      G_net_(G),
      mapping_(G_player_, G->mapping, "mapping"),
      synthesis_(G_player_, G->synthesis, "synthesis") {
  follow_stage(G_player_, *G, stage_);
  const auto like = at::TensorOptions().device(context.device).dtype(context.dtype);
  weights_ = {on_device(options_.loss.r1_gamma, like),
              on_device(options_.loss.r2_gamma, like),
              on_device(options_.loss.gp_weight, like)};
}

// The running average of w moves once for each phase, by the global mean of its w.
std::vector<AllReducedSum> StyleGan1::sums() {
  const auto move = [this](const Tensor& sum) {
    move_w_average_(G_net_->dlatent_avg, mean_of_w(sum), options_.w_avg_beta);
  };
  return {{"dlatent_avg", move, {G_net_->dlatent_avg}}};
}

// The w of each layer; two styles are mixed with probability options.mixing (sec. 3.1). The cut-off
// lies among the layers of the present stage.
Tensor StyleGan1::pictures(const PhaseInput& in, const Tensor& labels, Statistics& sums) {
  const Tensor w = mapping_(latents_.z(in), labels);
  sums.emplace_back("dlatent_avg", sum_of_w(w));
  const int64_t layers = layers_at(stage_.resolution);
  const Tensor cutoff = latents_.mixing_cutoff(in, options_.mixing, layers);
  Tensor ws = for_all_layers(w, G_net_->num_ws());
  if (!known_not_to_mix(cutoff, layers)) {
    const Tensor other = mapping_(latents_.z(in, 1), labels);
    ws = mix_styles(ws, for_all_layers(other, G_net_->num_ws()), cutoff);
  }
  return synthesis_(ws, level(), drawn_noise(in.key, in.samples, in.real.options()));
}

PhaseOutput StyleGan1::d_loss(const PhaseInput& in) {
  PhaseOutput out;
  // Generated pictures have the labels of the real ones, so that mixtures of both have one.
  const Tensor fake = [&] {
    const torch::NoGradGuard no_grad;
    return pictures(in, in.labels, out.sums);
  }();
  const Tensor t = options_.loss.kind == Loss::kWganGp ? places(in) : Tensor();
  const DiscriminatorLoss d =
      stylegan1::d_loss([&](const Tensor& x) { return D_(x, level(), in.labels); },
                        reals(in),
                        fake,
                        t,
                        weights_,
                        options_.loss,
                        resolution_);
  out.loss = d.loss;
  out.statistics = {{"Loss/scores/real", d.real_scores},
                    {"Loss/signs/real", d.real_scores.sign()},
                    {"Loss/scores/fake", d.fake_scores}};
  if (d.r1_penalty.defined()) out.statistics.emplace_back("Loss/r1_penalty", d.r1_penalty);
  if (d.r2_penalty.defined()) out.statistics.emplace_back("Loss/r2_penalty", d.r2_penalty);
  if (d.interpolated_norms.defined())
    out.statistics.emplace_back("Loss/gradient_norm", d.interpolated_norms);
  return out;
}

PhaseOutput StyleGan1::g_loss(const PhaseInput& in) {
  PhaseOutput out;
  const Tensor labels = latents_.labels(in);
  const Tensor fake_scores = D_(pictures(in, labels, out.sums), level(), labels);
  out.statistics = {{"Loss/signs/fake", fake_scores.sign()}};
  out.loss = stylegan1::g_loss(fake_scores, options_.loss);
  return out;
}

}  // namespace

RecipeRow row() {
  RecipeRow row{facts()};
  row.make = make_recipe<StyleGan1>;
  row.make_generator = make_generator;
  row.recognises = recognises;
  row.import_official = import_official;
  row.whole_model = [](const Json& model,
                       const std::map<std::string, Tensor>& tensors,
                       const std::string& source) {
    return model_of(whole_shape(model, tensors, source));
  };
  return row;
}

}  // namespace gantrain::stylegan1
