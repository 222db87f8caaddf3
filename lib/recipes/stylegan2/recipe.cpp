// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/recipe.h"

#include <algorithm>

#include "core/torch.h"
#include "gan/model_json.h"
#include "gan/style_recipe.h"
#include "nn/modules.h"
#include "ops/losses.h"
#include "recipes/stylegan2/options.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain::stylegan2 {

namespace {

StyleNetworks make_networks(const Options& o, const RecipeContext& c) {
  StyleDiscriminatorShape d = discriminator_shape(o, c);
  GeneratorShape g{mapping_shape(o, c), d.blocks};
  g.synthesis.architecture = o.g_architecture;
  d.blocks.architecture = o.d_architecture;
  const auto G = std::make_shared<Generator>(g);
  initialise_style_layers(*G, "G", c.seed);
  return {G, G->mapping, std::make_shared<StyleDiscriminator>(d)};
}

class StyleGan2 final : public StyleRecipe {
 public:
  explicit StyleGan2(const RecipeContext& context)
      : StyleGan2(context, context.config.read<Options>()) {}

  std::vector<AllReducedSum> sums() override;
  std::vector<DeviceNumber*> numbers() override { return {&gamma_, &pl_weight_, &ada_.number()}; }
  NamedTensors state() override;
  Json model() const override { return to_json(G_net_->shape); }

 private:
  StyleGan2(const RecipeContext& context, const Options& options);
  Tensor styles(const PhaseInput& in, const Tensor& c, Statistics& sums);
  Tensor pictures(const PhaseInput& in, const Tensor& ws);
  Tensor fakes_for_G(const PhaseInput& in, const Tensor& c, Statistics& sums) override {
    return pictures(in, styles(in, c, sums));
  }
  Tensor fakes_for_D(const PhaseInput& in, const Tensor& c, Statistics& sums) override {
    return pictures(in, styles(in, c, sums));
  }
  PhaseOutput g_path(const PhaseInput& in);

  Options options_;
  std::shared_ptr<Generator> G_net_;
  Handle<Synthesis> synthesis_;
  DeviceNumber pl_weight_;
  Tensor mean_length_;  // running mean of path lengths
};

StyleGan2::StyleGan2(const RecipeContext& context, const Options& options)
    : StyleRecipe(context,
                  facts(),
                  options,
                  make_networks(options, context),
                  main_step_share(options.g_interval)),
      options_(options),
      G_net_(std::static_pointer_cast<Generator>(G_player_.network)),
      synthesis_(G_player_, G_net_->synthesis, "synthesis") {
  pl_weight_ = on_device(options_.pl_weight, context.tensors());
  mean_length_ = torch::zeros({}, context.tensors());
  add_g_main();
  const int64_t turn = options_.D.steps;
  if (pl_weight_.is_used()) {
    add_penalty(G_player_,
                "Greg",
                {options_.g_interval * turn, turn - 1},
                options_.g_interval,
                [this](const PhaseInput& in) { return g_path(in); });
  }
  add_d_phases();
}

NamedTensors StyleGan2::state() {
  NamedTensors all = {{"pl_mean", mean_length_}};
  for (const auto& [name, tensor] : ada_.state()) all.emplace_back(name, tensor);
  return all;
}

// Path lengths move their running mean.
std::vector<AllReducedSum> StyleGan2::sums() {
  const auto move_length = [this](const Tensor& sum) {
    mean_length_.lerp_(sum[0] / sum[1], options_.pl_decay);
  };
  return {sum_of_styles(), {"pl_mean", move_length, {mean_length_}}, sum_of_signs()};
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

// Filters [1, 3, 3, 1], constant noise (drawn from a fixed stream), noise strengths (0) and w_avg
// may be missing in its file. Random noise is drawn once for each pair (noise_seed, layer) and
// shared by the pictures of a call, so a picture depends on its w and the seed alone.
class TrainedGenerator final : public TrainedStyleGenerator {
 public:
  explicit TrainedGenerator(const GeneratorShape& shape)
      : TrainedGenerator(std::make_shared<stylegan2::Generator>(in_float32(shape))) {}

  bool has_noise() const override { return true; }

  std::vector<std::string> style_weights(int64_t) const override {
    std::vector<std::string> names;
    for (const auto& block : net_->synthesis->blocks) {
      const std::string of_block = "synthesis." + block->name;
      if (block->conv0) names.push_back(of_block + ".conv0.affine.weight");
      names.push_back(of_block + ".conv1.affine.weight");
    }
    names.push_back("synthesis." + net_->synthesis->blocks.back()->name + ".torgb.affine.weight");
    return names;
  }

  Tensor synthesize(const Tensor& ws, const SynthesisOptions& options) override {
    return synthesize_from(ws, {}, options);
  }

  bool rotates() const override { return false; }

  // The learned constant, of 4x4 pixels, is moved by bilinear interpolation; around it are zeros,
  // as its convolutions see them. All pictures of a call are moved alike.
  Tensor synthesize_moved(const Tensor& ws,
                          const Tensor& inverse,
                          const SynthesisOptions& options) override {
    const torch::NoGradGuard no_grad;
    const Tensor m = inverse.to(at::kCPU, at::kDouble).reshape({-1, 3, 3});
    const Tensor shift = m[0].narrow(1, 2, 1).clone();  // picture widths
    const Tensor turned = m - at::eye(3, m.options());
    if (turned.narrow(1, 0, 2).narrow(2, 0, 2).abs().max().item<double>() > 0 ||
        (m - m[0]).abs().max().item<double>() > 0)
      fail(Exit::kUsage,
           "the input of StyleGAN2 can be translated, all pictures alike, and no more");
    return synthesize_from(
        ws, moved_constant(shift[0].item<double>(), shift[1].item<double>()), options);
  }

 private:
  explicit TrainedGenerator(const std::shared_ptr<stylegan2::Generator>& net)
      : TrainedStyleGenerator(net, net->mapping, net->shape.num_ws()), net_(net) {}

  Tensor made(const std::string& name, const Tensor& fresh) const override {
    if (name.ends_with(".noise_const")) return normal_like(fresh, 0, "init/G/" + name);
    const bool known = name.ends_with(".resample_filter") || name.ends_with(".noise_strength");
    return known ? fresh : Tensor();
  }

  static NoiseInputs noise_of(const SynthesisOptions& options) {
    if (options.noise == NoiseMode::kConst) return stored_noise();
    if (options.noise == NoiseMode::kNone) return no_noise();
    return [seed = options.noise_seed](int64_t layer, const Size& size) {
      return normal(Stream(seed, "noise", static_cast<uint64_t>(layer)),
                    {0, 1, 1},
                    {1, size.height, size.width});
    };
  }

  Tensor synthesize_from(const Tensor& ws, const Tensor& start, const SynthesisOptions& options) {
    const torch::AutoGradMode gradients(options.gradients);
    return net_->synthesis->forward(own(ws), noise_of(options), false, start).to(at::kFloat);
  }

  // The constant [C, h, w] looked up at each of its pixels' places plus (x, y) picture widths.
  Tensor moved_constant(double x, double y) const {
    const Tensor c = net_->synthesis->blocks.front()->constant.detach();
    const auto width = static_cast<double>(c.size(2)), height = static_cast<double>(c.size(1));
    const Tensor theta =
        at::tensor({1.0, 0.0, 2 * x, 0.0, 1.0, 2 * y * width / height}, c.options());
    const Tensor grid = at::affine_grid_generator(
        theta.reshape({1, 2, 3}), {1, c.size(0), c.size(1), c.size(2)}, /*align_corners=*/false);
    return at::grid_sampler(c.unsqueeze(0), grid, 0, 0, /*align_corners=*/false)[0];
  }

  std::shared_ptr<stylegan2::Generator> net_;
};

// The constructor of StyleGAN2-ADA. StyleGAN3's repository has the synthesis network's arguments
// among the generator's own, and other defaults.
Json pickled_model(const PickledGenerator& g) {
  Json model = {{"recipe", "stylegan2"}};
  for (const char* key : {"z_dim", "c_dim", "w_dim", "img_resolution", "img_channels"})
    model[key] = g.arguments[key];
  Json mapping = mapping_arguments(g);
  Json synthesis = g.arguments.value("synthesis_kwargs", Json::object());
  Json flat = Json::object();
  for (const auto& [key, value] : g.arguments.items()) {
    if (!contains(g.own, key)) flat[key] = value;
  }
  const bool of_later_repository = g.class_name == "training.networks_stylegan2.Generator" ||
                                   !flat.empty() ||
                                   (!g.arguments.contains("synthesis_kwargs") &&
                                    g.program.find("update_emas") != g.program.npos);
  if (of_later_repository) {
    if (!mapping.contains("w_avg_beta")) mapping["w_avg_beta"] = 0.998;
    synthesis = flat;
    if (!synthesis.contains("num_fp16_res")) synthesis["num_fp16_res"] = 4;
    if (!synthesis.contains("conv_clamp")) synthesis["conv_clamp"] = 256;
  }
  static const Json known = {{"channel_base", nullptr},
                             {"channel_max", nullptr},
                             {"num_fp16_res", nullptr},
                             {"conv_clamp", nullptr},
                             {"architecture", nullptr},
                             {"resample_filter", {1, 3, 3, 1}},
                             {"activation", "lrelu"},
                             {"use_noise", true},
                             {"kernel_size", 3}};
  model["mapping_kwargs"] = mapping;
  model["synthesis_kwargs"] = known_arguments(synthesis, known, g, "synthesis_kwargs");
  return model;
}

const PickledForm kPickled = {
    .classes = {"Generator",
                "training.networks.Generator",
                "training.networks_stylegan2.Generator"},
    .model = pickled_model,
    .needed = [](const Json& model) -> std::vector<std::string> {
      return {"mapping.fc0.weight",
              "mapping.w_avg",
              "synthesis.b4.const",
              fmt::format("synthesis.b{}.torgb.weight", model["img_resolution"].get<int64_t>())};
    }};

}  // namespace

RecipeRow row() {
  RecipeRow row = make_row<StyleGan2, TrainedGenerator, generator_shape, to_json>(facts());
  row.recognises = [](const TensorMap& tensors) {
    return tensors.count("synthesis.b4.const") != 0 && tensors.count("mapping.fc0.weight") != 0;
  };
  row.pickled = &kPickled;
  return row;
}

}  // namespace gantrain::stylegan2
