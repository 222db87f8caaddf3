// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan3/recipe.h"

#include <algorithm>

#include "core/torch.h"
#include "gan/style_recipe.h"
#include "ops/upfirdn2d/upfirdn2d.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain::stylegan3 {

namespace {

// The feature maps of the file's D by resolution.
std::map<int64_t, int64_t> widths_of_D(const TensorMap& file) {
  std::map<int64_t, int64_t> widths;
  for (const auto& [name, tensor] : file) {
    if (!name.starts_with("D.b") || tensor.dim() != 4) continue;
    const std::vector<std::string> parts = split(name.substr(3), '.');
    const auto resolution = parse_int(parts.front());
    if (!resolution || parts.size() != 3 || parts[2] != "weight") continue;
    if (parts[1] == "conv0" || parts[1] == "conv") widths[*resolution] = tensor.size(0);
  }
  return widths;
}

// Whether StyleBlocks of these numbers have these widths.
bool has_widths(const StyleBlocks& blocks, const std::map<int64_t, int64_t>& widths) {
  return std::all_of(widths.begin(), widths.end(), [&](const auto& width) {
    return blocks.channels(width.first) == width.second;
  });
}

}  // namespace

TensorNames names_in(const TensorMap& file, const SynthesisShape& shape) {
  const std::vector<std::string> there = layer_names(file);
  const bool same_size = sizes_of(there) == sizes_of(layer_names(shape));
  return [there, same_size](const std::string& name) -> NameInFile {
    const LayerTensor layer = layer_tensor(name);
    if (layer.layer < 0) return name;
    if (layer.layer >= static_cast<int64_t>(there.size())) return std::string();
    return {"synthesis." + there[static_cast<size_t>(layer.layer)] + "." + layer.tensor,
            !same_size && layer.tensor.ends_with("_filter")};
  };
}

std::vector<std::string> values_that_fit(const TensorMap& file,
                                         const Options& options,
                                         const GeneratorShape& shape) {
  GeneratorShape other;
  try {
    other = shape_of_tensors(file, "run.init_from");
  } catch (const UserError&) {
    return {};  // of another recipe, or of sizes that only its configuration tells
  }
  std::vector<std::string> values;
  const auto advise = [&](const char* key, const auto& theirs, const auto& mine) {
    if (theirs != mine) values.push_back(fmt::format("{}={}", key, theirs));
  };
  const SynthesisShape &theirs = other.synthesis, &mine = shape.synthesis;
  const bool rotates = theirs.conv_kernel == 1;
  advise("stylegan3.config", rotates ? "r" : "t", std::string(mine.conv_kernel == 1 ? "r" : "t"));
  advise("stylegan3.num_layers", theirs.num_layers, mine.num_layers);

  // Many numbers may make the same layers: those of here stay where they do.
  StyleBlocks D{.channel_base = options.d_channel_base.value_or(options.channel_base),
                .channel_max = options.d_channel_max.value_or(options.channel_max)};
  const int64_t factor = rotates ? 2 : 1;
  SynthesisShape with_mine = theirs;
  with_mine.channel_base = options.channel_base * factor;
  with_mine.channel_max = options.channel_max * factor;
  with_mine.num_critical = std::min(mine.num_critical, theirs.num_layers - 1);
  if (layer_names(with_mine) != layer_names(file)) {
    advise("stylegan3.num_critical", theirs.num_critical, mine.num_critical);
    with_mine.num_critical = theirs.num_critical;
  }
  const bool expressible = theirs.channel_max % factor == 0;
  if (layer_names(with_mine) != layer_names(file) && expressible) {
    const int64_t base = (theirs.channel_base + factor - 1) / factor;
    advise("stylegan3.channel_max", theirs.channel_max / factor, options.channel_max);
    advise("stylegan3.channel_base", base, options.channel_base);
    D.channel_base = options.d_channel_base.value_or(base);
    D.channel_max = options.d_channel_max.value_or(theirs.channel_max / factor);
  }
  const std::map<int64_t, int64_t> widths = widths_of_D(file);
  if (!widths.empty() && !has_widths(D, widths)) {
    StyleBlocks fitting;
    fitting.channel_max = widths.begin()->second;
    for (const auto& [resolution, width] : widths) fitting.channel_base = resolution * width;
    if (has_widths(fitting, widths)) {
      advise("stylegan3.d_channel_max", fitting.channel_max, D.channel_max);
      advise("stylegan3.d_channel_base", fitting.channel_base, D.channel_base);
    }
  }

  advise("stylegan3.map_depth", other.mapping.num_layers, shape.mapping.num_layers);
  advise("stylegan3.w_dim", other.mapping.w_dim, shape.mapping.w_dim);
  advise("stylegan3.z_dim", other.mapping.z_dim, shape.mapping.z_dim);
  advise("data.channels", theirs.img_channels, mine.img_channels);
  advise("data.cond",
         other.mapping.c_dim > 0 ? "on" : "off",
         std::string(shape.mapping.c_dim > 0 ? "on" : "off"));
  return values;
}

namespace {

// Configuration R has kernels of one pixel and radial filters, and twice the feature maps instead
// (Karras et al. 2021, sec. 3.2 and app. D).
GeneratorShape shape_of(const Options& o, const RecipeContext& c) {
  const bool rotates = o.config == Equivariance::kR;
  const auto batch = c.config.get("train.batch").get<double>();
  GeneratorShape shape;
  shape.mapping = mapping_shape(o, c);
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
  s.conv_clamp = clamp_of(o, c);
  return shape;
}

StyleNetworks make_networks(const Options& o, const RecipeContext& c) {
  const auto G = std::make_shared<Generator>(shape_of(o, c));
  initialise(*G, c.seed);
  StyleDiscriminatorShape d = discriminator_shape(o, c);
  d.blocks.channel_base = o.d_channel_base.value_or(o.channel_base);
  d.blocks.channel_max = o.d_channel_max.value_or(o.channel_max);
  return {G, G->mapping, std::make_shared<StyleDiscriminator>(d)};
}

// The sigma of the blur, which goes down in a line.
DeviceNumber blur_of(const Options& o, const at::TensorOptions& like) {
  if (!o.blur_sigma || !o.blur_fade)
    throw std::logic_error("stylegan3's blur was not chosen: complete()");
  const auto fade = static_cast<double>(o.blur_fade->images);
  const double first = *o.blur_sigma;
  if (first == 0 || fade == 0) return 0;
  return {[first, fade](int64_t images_seen) {
            return first * std::max(1 - static_cast<double>(images_seen) / fade, 0.0);
          },
          like.dtype(at::kDouble)};
}

// A micro-batch's share of the mean squares of the layers' inputs over the global batch,
// [layers + 1]: the means, and 1.
Tensor sum_of_magnitudes(const MagnitudeUpdate& update) {
  const Tensor means = at::stack(update.mean_squares);
  return at::cat({means, at::ones({1}, means.options())});
}

// The running means move once: m <- q + beta (m - q), q the mean over all micro-batches whose
// shares were added up.
void move_magnitudes_(const Synthesis& synthesis, const Tensor& sum) {
  const torch::NoGradGuard no_grad;
  const auto count = static_cast<int64_t>(synthesis.layers.size());
  const Tensor means = sum.narrow(0, 0, count) / sum[count];
  for (int64_t i = 0; i < count; ++i) {
    const SynthesisLayer& layer = *synthesis.layers[static_cast<size_t>(i)];
    const Tensor now = means[i].to(layer.magnitude_ema.options());
    layer.magnitude_ema.copy_(now + layer.magnitude_beta * (layer.magnitude_ema - now));
  }
}

class StyleGan3 final : public StyleRecipe {
 public:
  explicit StyleGan3(const RecipeContext& context)
      : StyleGan3(context, context.config.read<Options>()) {}

  std::vector<AllReducedSum> sums() override;
  std::vector<DeviceNumber*> numbers() override { return {&gamma_, &sigma_, &ada_.number()}; }
  TensorNames names_in(const TensorMap& file, const Player&) const override {
    return stylegan3::names_in(file, G_net_->shape.synthesis);
  }
  std::vector<std::string> values_that_fit(const TensorMap& file) const override {
    return stylegan3::values_that_fit(file, options_, G_net_->shape);
  }
  Json model() const override { return to_json(G_net_->shape); }

 private:
  StyleGan3(const RecipeContext& context, const Options& options);
  Tensor before_augmentation(const Tensor& x) const override;
  Tensor fakes_for_G(const PhaseInput& in, const Tensor& c, Statistics& sums) override;
  Tensor fakes_for_D(const PhaseInput& in, const Tensor& c, Statistics& sums) override;

  Options options_;
  std::shared_ptr<Generator> G_net_;
  Handle<Synthesis> synthesis_;
  DeviceNumber sigma_;  // of the blur, pixels
};

// G has no penalty. The gradient of scores by pictures does not depend on the scores' last bias.
StyleGan3::StyleGan3(const RecipeContext& context, const Options& options)
    : StyleRecipe(context, facts(), options, make_networks(options, context)),
      options_(options),
      G_net_(std::static_pointer_cast<Generator>(G_player_.network)),
      synthesis_(G_player_, G_net_->synthesis, "synthesis") {
  sigma_ = blur_of(options_, context.tensors());
  add_g_main();
  add_d_phases({"b4.out.bias"});
}

// The sums that Dmain and Dreg return over the global batch. In Dmain each part of a batch is
// normalised by the running magnitudes as its own mean squares move them; what the iteration keeps
// are the running magnitudes moved once, by the mean over all ranks and micro-batches. So these are
// the same on every rank.
std::vector<AllReducedSum> StyleGan3::sums() {
  std::vector<Tensor> magnitudes;
  for (const auto& layer : G_net_->synthesis->layers) magnitudes.push_back(layer->magnitude_ema);
  const auto move = [this](const Tensor& sum) { move_magnitudes_(*G_net_->synthesis, sum); };
  return {sum_of_styles(), {"magnitudes", move, magnitudes}, sum_of_signs()};
}

// Taps 2^-((j / sigma)^2), |j| <= 3 sigma, of sum 1, with zeros around the pictures. The filter has
// the length that it has at the start: its outer taps become 0, so that no shape depends on sigma,
// and at sigma 0 one tap is left.
Tensor StyleGan3::before_augmentation(const Tensor& x) const {
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

Tensor StyleGan3::fakes_for_G(const PhaseInput& in, const Tensor& c, Statistics& /*sums*/) {
  return synthesis_(for_all_layers(mapping_(latents_.z(in), c), G_net_->shape.num_ws()));
}

// Here the generator's running means move (app. F.1).
Tensor StyleGan3::fakes_for_D(const PhaseInput& in, const Tensor& c, Statistics& sums) {
  const Tensor w = mapping_(latents_.z(in), c);
  MagnitudeUpdate magnitudes;
  const Tensor ws = for_all_layers(w, G_net_->shape.num_ws());
  const Tensor pictures = synthesis_(ws, &magnitudes);
  sums.emplace_back("w_avg", sum_of_w(w));
  sums.emplace_back("magnitudes", sum_of_magnitudes(magnitudes));
  return pictures;
}

// Filters, the input's transform and w_avg may be missing in its file.
class TrainedGenerator final : public TrainedStyleGenerator {
 public:
  explicit TrainedGenerator(const GeneratorShape& shape)
      : TrainedGenerator(std::make_shared<stylegan3::Generator>(in_float32(shape))) {}

  bool rotates() const override { return true; }

  std::vector<std::string> style_weights(int64_t) const override {
    std::vector<std::string> names = {"synthesis.input.affine.weight"};
    for (const auto& layer : net_->synthesis->layers)
      names.push_back(fmt::format("synthesis.{}.affine.weight", layer->plan.name));
    return names;
  }

  Tensor synthesize(const Tensor& ws, const SynthesisOptions& options) override {
    return synthesize_moved(ws, {}, options);
  }

  Tensor synthesize_moved(const Tensor& ws,
                          const Tensor& inverse,
                          const SynthesisOptions& options) override {
    const torch::AutoGradMode gradients(options.gradients);
    return net_->synthesis->forward(own(ws), nullptr, inverse).to(at::kFloat);
  }

 private:
  explicit TrainedGenerator(const std::shared_ptr<stylegan3::Generator>& net)
      : TrainedStyleGenerator(net, net->mapping, net->shape.num_ws()), net_(net) {}

  Tensor made(const std::string& name, const Tensor& fresh) const override {
    const bool known = name.ends_with("_filter") || name == "synthesis.input.transform";
    return known ? fresh : Tensor();
  }

  std::shared_ptr<stylegan3::Generator> net_;
};

// The constructor passes arguments that are not its own on to the synthesis network.
Json pickled_model(const PickledGenerator& g) {
  Json model = {{"recipe", "stylegan3"}};
  Json synthesis = Json::object();
  for (const auto& [key, value] : g.arguments.items()) {
    const bool own = contains(g.own, key);
    if (!own) synthesis[key] = value;
    if (own && value.is_number_integer()) model[key] = value;
  }
  Json known = to_json(GeneratorShape());  // arguments that may have any value
  known.erase("recipe");
  for (const auto& item : known.items()) item.value() = nullptr;
  model["mapping_kwargs"] = mapping_arguments(g);
  model.update(known_arguments(synthesis, known, g, "synthesis_kwargs"));
  return model;
}

const PickledForm kPickled = {
    .classes = {"Generator", "training.networks_stylegan3.Generator"},
    .synthesis_has_input = true,
    .model = pickled_model,
    .needed = [](const Json&) -> std::vector<std::string> {
      return {
          "mapping.fc0.weight", "mapping.w_avg", "synthesis.input.freqs", "synthesis.input.phases"};
    }};

}  // namespace

RecipeRow row() {
  RecipeRow row = make_row<StyleGan3, TrainedGenerator, generator_shape, to_json>(facts());
  row.recognises = [](const TensorMap& tensors) {
    return tensors.count("synthesis.input.freqs") != 0 && tensors.count("mapping.fc0.weight") != 0;
  };
  row.pickled = &kPickled;
  return row;
}

}  // namespace gantrain::stylegan3
