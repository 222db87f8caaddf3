// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan1/recipe.h"

#include <algorithm>

#include "core/torch.h"
#include "gan/growing_recipe.h"
#include "ops/autocast.h"
#include "ops/modulation/modulation.h"
#include "ops/norms/norms.h"
#include "ops/resample.h"
#include "util/text.h"

namespace gantrain::stylegan1 {

namespace {
constexpr const char* kStyles = "latents and styles scale everything else";
}

Mapping::Mapping(const Shape& shape) {
  const NetworkOptions& o = shape.net;
  int64_t in = o.latent_size;
  if (shape.label_size > 0) {
    classes =
        add_child<Weight>(*this, "LabelConcat", at::IntArrayRef({shape.label_size, o.latent_size}));
    in *= 2;
  }
  for (int64_t i = 0; i < o.mapping_layers; ++i) {
    const int64_t out = i + 1 < o.mapping_layers ? o.mapping_fmaps : o.dlatent_size;
    layers.push_back(add_child<Equalised>(
        *this, fmt::format("Dense{}", i), dense_shape(in, out, kHeGain, o.mapping_lrmul)));
    in = out;
  }
}

Tensor Mapping::forward(const Tensor& z, const Tensor& labels) {
  const AutocastDisabled exact(kStyles);
  Tensor x = z;
  if (classes) {
    const Tensor beside =
        labels.defined() ? classes->weight.index_select(0, labels) : at::zeros_like(z);
    x = at::cat({z, beside}, 1);
  }
  x = pixel_norm(x);
  for (const auto& layer : layers) x = lrelu(autocast_linear(x, layer->w()), layer->b());
  return x;
}

StyledLayer::StyledLayer(const Size& size) {
  if (size.in == 0) {
    constant = register_parameter("const", torch::ones({1, size.out, 4, 4}));
  } else {
    weight = register_parameter("weight", torch::zeros({size.out, size.in, 3, 3}));
    scale = kHeGain / std::sqrt(static_cast<double>(9 * size.in));
  }
  noise_weight = add_child<Weight>(*this, "Noise", at::IntArrayRef({size.out}));
  bias = register_parameter("bias", torch::zeros({size.out}));
  style =
      add_child<Equalised>(*this, "StyleMod", dense_shape(size.w_dim, 2 * size.out, /*gain=*/1));
}

StyledLayer::Kernel StyledLayer::kernel(const Tensor& x) const {
  return scale_is_free(x) ? Kernel{weight, scale} : Kernel{weight * scale, 1};
}

Tensor StyledLayer::finish(const Tensor& features,
                           double factor,
                           const Tensor& w,
                           const Tensor& noise) const {
  const Tensor both = in_block("StyleMod", [&] {
    const AutocastDisabled exact(kStyles);
    return dense(w, *style);
  });
  BiasAct lrelu;
  lrelu.act = Activation::kLrelu;
  lrelu.gain = 1;  // the layer's own gain has it
  const Tensor x = modulated_act(
      features,
      {.noise = noise, .strength = noise_weight->weight, .bias = bias, .scale = factor},
      lrelu);
  return adain(x, both);
}

Synthesis::Synthesis(const Shape& shape) : resolution(shape.resolution) {
  const FeatureMaps maps = shape.maps();
  const int64_t w_dim = shape.net.dlatent_size;
  for (int64_t pixels = 4; pixels <= resolution; pixels *= 2) {
    const int64_t in = pixels == 4 ? 0 : maps.at_pixels(pixels / 2), out = maps.at_pixels(pixels);
    const auto block = add_child<ModuleGroup>(*this, block_name(pixels));
    const auto add = [&](const char* name, int64_t from) {
      layers.push_back(add_child<StyledLayer>(*block, name, StyledLayer::Size{from, out, w_dim}));
    };
    add(pixels == 4 ? "Const" : "Conv0_up", in);
    add(pixels == 4 ? "Conv" : "Conv1", out);
    rgb.push_back(add_child<Equalised>(*this,
                                       rgb_name("ToRGB", resolution, pixels),
                                       conv_shape(out, shape.num_channels, 1, /*gain=*/1)));
    for (int i = 0; i < 2; ++i)
      noise_maps.push_back(register_buffer(fmt::format("noise{}", noise_maps.size()),
                                           torch::zeros({1, 1, pixels, pixels})));
  }
}

Tensor Synthesis::forward(const Tensor& ws, const StageLevel& level, const NoiseInputs& noise) {
  check_level(level, resolution);
  const auto top = static_cast<size_t>(doublings(level.pixels));
  const auto finish = [&](const Tensor& x, double factor, size_t i) {
    const auto layer = static_cast<int64_t>(i);
    const Tensor added = noise ? noise(layer, square_of(x.size(2))) : noise_maps[i];
    return layers[i]->finish(x, factor, ws.select(1, layer), added);
  };
  // Pictures are float32 whatever the layers compute in.
  const auto picture_of = [&](size_t i, const Tensor& x) {
    const BlockScope named(rgb_name("ToRGB", resolution, int64_t{4} << i));
    return conv(x, *rgb[i]).to(rgb[i]->weight.scalar_type());
  };
  Tensor x, below;
  for (size_t i = 0; i <= top; ++i) {
    if (i > 0 && i == top && level.fading()) below = nearest_up(picture_of(i - 1, x));
    const BlockScope named(block_name(int64_t{4} << i));
    if (i == 0) {
      const BlockScope constant("Const");
      note_computed(layers[0]->constant.scalar_type(), "a constant: nothing is multiplied");
      x = finish(layers[0]->constant.expand({ws.size(0), -1, -1, -1}), 1, 0);
    } else {
      const BlockScope doubled("Conv0_up");
      const StyledLayer::Kernel kernel = layers[2 * i]->kernel(x);
      x = finish(blur(conv2d_up(x, kernel.weight)), kernel.factor, 2 * i);
    }
    const BlockScope second(i == 0 ? "Conv" : "Conv1");
    const StyledLayer::Kernel kernel = layers[2 * i + 1]->kernel(x);
    x = autocast_conv2d(x, kernel.weight, {}, {.padding = {1, 1}});
    x = finish(x, kernel.factor, 2 * i + 1);
  }
  const Tensor picture = picture_of(top, x);
  return below.defined() ? level.alpha.lerp(below, picture) : picture;
}

Generator::Generator(const Shape& s) : shape(s) {
  check_level({s.resolution}, s.resolution);
  mapping = add_child<Mapping>(*this, "mapping", s);
  synthesis = add_child<Synthesis>(*this, "synthesis", s);
  dlatent_avg = register_buffer("dlatent_avg", torch::zeros({s.net.dlatent_size}));
}

Tensor Generator::forward(const Tensor& z,
                          const Tensor& labels,
                          const StageLevel& level,
                          const NoiseInputs& noise) {
  const Tensor w = in_block("mapping", [&] { return mapping->forward(z, labels); });
  const BlockScope named("synthesis");
  return synthesis->forward(for_all_layers(w, num_ws()), level, noise);
}

bool Generator::active(const std::string& parameter, int64_t pixels, bool fading) const {
  const std::string part = "synthesis.";
  if (parameter.rfind(part, 0) != 0) return true;  // the mapping
  return is_active(parameter.substr(part.size()), shape.resolution, pixels, fading);
}

DiscriminatorShape discriminator_shape(const Shape& shape) {
  return {.resolution = shape.resolution,
          .num_channels = shape.num_channels,
          .label_size = shape.label_size,
          .maps = shape.maps(),
          .mbstd_group_size = kGrowingGroup,
          .blur = true};
}

void initialise(Generator& network, const std::string& player, uint64_t seed) {
  const torch::NoGradGuard no_grad;
  initialise_equalised(network, player, seed);
  const auto draw = [&](const Tensor& tensor, const std::string& name) {
    tensor.copy_(normal_like(tensor, seed, "init/" + player + "/" + name));
  };
  if (network.mapping->classes)
    draw(network.mapping->classes->weight, "mapping.LabelConcat.weight");
  for (const auto& item : network.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    const auto* layer = dynamic_cast<const StyledLayer*>(item.value().get());
    if (layer == nullptr) continue;
    if (layer->weight.defined()) draw(layer->weight, item.key() + ".weight");
    if (layer->constant.defined()) layer->constant.fill_(1);
    layer->bias.zero_();
    layer->noise_weight->weight.zero_();
  }
  for (const auto& item : network.synthesis->named_buffers(/*recurse=*/false))
    draw(item.value(), "synthesis." + item.key());
  network.dlatent_avg.zero_();
}

Shape generator_shape(const Json& model, const TensorMap& tensors, const std::string& source) {
  const GeneratorTensors given{tensors, source, "a StyleGAN generator"};
  const auto dense = [](int64_t i) { return fmt::format("mapping.Dense{}.weight", i); };
  Shape shape;
  NetworkOptions& net = shape.net;
  net.latent_size = given.size(dense(0), 2, 1);
  if (given.has("mapping.LabelConcat.weight")) {
    shape.label_size = given.size("mapping.LabelConcat.weight", 2, 0);
    net.latent_size = given.size("mapping.LabelConcat.weight", 2, 1);
  }
  net.mapping_layers = 1;
  while (given.has(dense(net.mapping_layers))) ++net.mapping_layers;
  net.mapping_fmaps = given.size(dense(0), 2, 0);
  net.dlatent_size = given.size(dense(net.mapping_layers - 1), 2, 0);
  net.fmap_max = given.size("synthesis.4x4.Conv.weight", 4, 0);
  shape.resolution = 4;
  const auto conv = [](int64_t pixels) {
    return "synthesis." + block_name(pixels) + ".Conv1.weight";
  };
  while (shape.resolution < 1024 && given.has(conv(2 * shape.resolution))) shape.resolution *= 2;
  const int64_t last =
      shape.resolution == 4 ? net.fmap_max : given.size(conv(shape.resolution), 4, 0);
  net.fmap_base = last << (doublings(shape.resolution) + 1);
  shape.num_channels = given.size("synthesis.ToRGB_lod0.weight", 4, 0);
  read_model(model, source, shape);
  return shape;
}

DiscriminatorLoss d_loss(const Discriminate& D,
                         const Tensor& real,
                         const Tensor& fake,
                         const Tensor& t,
                         const PenaltyWeights& weights,
                         const LossOptions& o,
                         int64_t resolution) {
  const double scale = gradient_scale(o.penalty_size, real.size(3), resolution);
  if (o.kind == Loss::kLogistic || o.kind == Loss::kSaturating)
    return logistic_zero_centred_d(D, real, fake, {weights.r1, weights.r2, scale});
  if (o.kind == Loss::kWganGp)
    return wgan_gp_d(D, real, fake, t, {weights.gp, o.gp_target, o.drift, scale});
  DiscriminatorLoss d;
  d.real_scores = D(real);
  d.fake_scores = D(fake);
  d.loss = hinge_d(d.real_scores, d.fake_scores);
  return d;
}

Tensor g_loss(const Tensor& fake_scores, const LossOptions& o) {
  if (o.kind == Loss::kLogistic) return logistic_g(fake_scores);
  return o.kind == Loss::kSaturating ? saturating_logistic_g(fake_scores)
                                     : wasserstein_g(fake_scores);
}

namespace {

class TrainedGenerator final : public NetworkGenerator<stylegan1::Generator> {
 public:
  using NetworkGenerator::NetworkGenerator;

  int64_t z_dim() const override { return net_->shape.net.latent_size; }
  int64_t classes() const override { return net_->shape.label_size; }
  int64_t num_ws() const override { return net_->num_ws(); }
  int64_t w_dim() const override { return net_->shape.net.dlatent_size; }
  bool has_noise() const override { return true; }
  std::vector<int64_t> levels() const override { return levels_up_to(net_->shape.resolution); }

  std::vector<std::string> style_weights(int64_t level) const override {
    std::vector<std::string> names;
    for (const int64_t pixels : levels_up_to(level == 0 ? net_->shape.resolution : level)) {
      for (const char* layer : {pixels == 4 ? "Const" : "Conv0_up", pixels == 4 ? "Conv" : "Conv1"})
        names.push_back(fmt::format("synthesis.{}.{}.StyleMod.weight", block_name(pixels), layer));
    }
    return names;
  }

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
    if (options.noise == NoiseMode::kConst) return stored_noise();
    if (options.noise == NoiseMode::kNone) return no_noise();
    return drawn_noise(make_draw_key(options.noise_seed, 0, 0, average().device()),
                       {0, 1, count},
                       average().options());
  }
};

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
    refuse_file(
        source,
        "fused_scale = {} in the network's configuration; true, false or \"auto\" is needed",
        config["fused_scale"].dump());
  return *value;
}

// "128x128/Conv0_up/weight" -> 128.
int64_t pixels_of(const std::string& variable) {
  return parse_int(variable.substr(0, variable.find('x'))).value_or(0);
}

}  // namespace

Json model_of(const Shape& shape) { return model_json("stylegan1", shape); }

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
  for (const auto& [name, value] : file.tensors) {
    const auto begins = [&of = name](const auto& part) { return of.starts_with(part.first); };
    if (std::none_of(kParts.begin(), kParts.end(), begins))
      refuse_file(source, "tensor {} is no variable of G_mapping/, G_synthesis/, G/ or D/", name);
  }
  TensorMap all;
  for (const auto& [official, own] : kParts)
    all.merge(from_official(file.tensors, official, own, layout));
  const Shape shape = generator_shape(config, all, source);
  return content_of_official(Generator(shape), model_of(shape), all, source, "");
}

namespace {

std::shared_ptr<Generator> make_network(const Options& o, const RecipeContext& c) {
  auto G = std::make_shared<Generator>(
      Shape{c.resolution.width, c.channels, static_cast<int64_t>(c.class_counts.size()), o.net});
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
  // Adds the w that the mapping network computed to the sums.
  Tensor pictures(const PhaseInput& in, const Tensor& labels, Statistics& sums) override;
  DiscriminatorLoss loss_of_D(const Discriminate& D,
                              const Tensor& real,
                              const Tensor& fake,
                              const PhaseInput& in) override {
    const Tensor t = options_.loss.kind == Loss::kWganGp ? places(in) : Tensor();
    return stylegan1::d_loss(D, real, fake, t, weights_, options_.loss, resolution_);
  }
  PhaseOutput loss_of_G(const Tensor& fake_scores) override {
    return {stylegan1::g_loss(fake_scores, options_.loss),
            {{"Loss/signs/fake", fake_scores.sign()}}};
  }

  Options options_;
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
                    options.D,
                    {options.net.latent_size, context.class_counts, context.device}),
      options_(options),
      G_net_(G),
      mapping_(G_player_, G->mapping, "mapping"),
      synthesis_(G_player_, G->synthesis, "synthesis"),
      weights_{on_device(options.loss.r1_gamma, context.tensors()),
               on_device(options.loss.r2_gamma, context.tensors()),
               on_device(options.loss.gp_weight, context.tensors())} {
  follow_stage(G_player_, *G, stage_);
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

}  // namespace

RecipeRow row() {
  RecipeRow row = make_row<StyleGan1, TrainedGenerator, generator_shape, model_of>(facts());
  row.recognises = [](const TensorMap& tensors) {
    return tensors.count("mapping.Dense0.weight") != 0 &&
           tensors.count("synthesis.4x4.Const.const") != 0;
  };
  row.import_official = import_official;
  return row;
}

}  // namespace gantrain::stylegan1
