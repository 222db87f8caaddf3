// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan1/networks.h"

#include "core/forward_precision.h"
#include "core/torch.h"
#include "gan/model_json.h"
#include "nn/style/styles.h"
#include "ops/autocast.h"
#include "ops/modulation/modulated_act.h"
#include "ops/norms/norms.h"
#include "ops/resample.h"

namespace gantrain::stylegan1 {

using at::Tensor;

namespace {

// An empty module of a name: "16x16".
struct Block final : torch::nn::Module {};

}  // namespace

Weight::Weight(const std::vector<int64_t>& size) {
  weight = register_parameter("weight", torch::zeros(size));
}

Mapping::Mapping(const Shape& shape) {
  const NetworkOptions& o = shape.net;
  int64_t in = o.latent_size;
  if (shape.label_size > 0) {
    classes = register_module(
        "LabelConcat",
        std::make_shared<Weight>(std::vector<int64_t>{shape.label_size, o.latent_size}));
    in *= 2;
  }
  for (int64_t i = 0; i < o.mapping_layers; ++i) {
    const int64_t out = i + 1 < o.mapping_layers ? o.mapping_fmaps : o.dlatent_size;
    layers.push_back(register_module(
        fmt::format("Dense{}", i),
        std::make_shared<Equalised>(dense_shape(in, out, kHeGain, o.mapping_lrmul))));
    in = out;
  }
}

namespace {
constexpr const char* kStyles = "latents and styles scale everything else";
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
  noise_weight = register_module("Noise", std::make_shared<Weight>(std::vector<int64_t>{size.out}));
  bias = register_parameter("bias", torch::zeros({size.out}));
  style = register_module(
      "StyleMod", std::make_shared<Equalised>(dense_shape(size.w_dim, 2 * size.out, /*gain=*/1)));
}

StyledLayer::Kernel StyledLayer::kernel(const Tensor& x) const {
  return scale_is_free(x) ? Kernel{weight, scale} : Kernel{weight * scale, 1};
}

Tensor StyledLayer::finish(const Tensor& features,
                           double factor,
                           const Tensor& w,
                           const Tensor& noise) const {
  const Tensor both = [&] {
    const BlockScope named("StyleMod");
    const AutocastDisabled exact(kStyles);
    return dense(w, *style);
  }();
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
    const auto block = register_module(block_name(pixels), std::make_shared<Block>());
    const auto add = [&](const char* name, int64_t from) {
      const StyledLayer::Size size{from, out, w_dim};
      layers.push_back(block->register_module(name, std::make_shared<StyledLayer>(size)));
    };
    add(pixels == 4 ? "Const" : "Conv0_up", in);
    add(pixels == 4 ? "Conv" : "Conv1", out);
    rgb.push_back(register_module(
        rgb_name("ToRGB", resolution, pixels),
        std::make_shared<Equalised>(conv_shape(out, shape.num_channels, 1, /*gain=*/1))));
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
  mapping = register_module("mapping", std::make_shared<Mapping>(s));
  synthesis = register_module("synthesis", std::make_shared<Synthesis>(s));
  dlatent_avg = register_buffer("dlatent_avg", torch::zeros({s.net.dlatent_size}));
}

Tensor Generator::forward(const Tensor& z,
                          const Tensor& labels,
                          const StageLevel& level,
                          const NoiseInputs& noise) {
  const Tensor w = [&] {
    const BlockScope named("mapping");
    return mapping->forward(z, labels);
  }();
  const BlockScope named("synthesis");
  return synthesis->forward(for_all_layers(w, num_ws()), level, noise);
}

bool Generator::active(const std::string& parameter, int64_t pixels, bool fading) const {
  const std::string part = "synthesis.";
  if (parameter.rfind(part, 0) != 0) return true;  // the mapping
  return is_active(parameter.substr(part.size()), shape.resolution, pixels, fading);
}

DiscriminatorShape discriminator_shape(const Shape& shape) {
  DiscriminatorShape d;
  d.resolution = shape.resolution;
  d.num_channels = shape.num_channels;
  d.label_size = shape.label_size;
  d.maps = shape.maps();
  d.blur = true;
  return d;
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

Shape generator_shape(const std::map<std::string, Tensor>& tensors, const std::string& source) {
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
  return shape;
}

}  // namespace gantrain::stylegan1
