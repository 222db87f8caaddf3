// SPDX-License-Identifier: Apache-2.0
#include "nn/style/layers.h"

#include <algorithm>
#include <cmath>

#include "core/device.h"
#include "core/forward_precision.h"
#include "core/tensors.h"
#include "core/torch.h"
#include "nn/progressive.h"
#include "ops/autocast.h"
#include "ops/device_kernels.h"
#include "ops/kernels.h"
#include "ops/norms/norms.h"
#include "ops/operator.h"
#include "ops/upfirdn2d/upfirdn2d.h"

namespace gantrain {

NoiseInputs stored_noise() { return nullptr; }

NoiseInputs no_noise() {
  return [](int64_t, const Size&) { return Tensor(); };
}

NoiseInputs drawn_noise(const DrawKey& key, const Samples& samples, const at::TensorOptions& like) {
  return [key, samples, like](int64_t layer, const Size& size) {
    return normal(key, "noise/" + std::to_string(layer), samples, {1, size.height, size.width})
        .to(like);
  };
}

namespace {

// [1, 3, 3, 1]: Karras et al. 2020a, app. B.
Tensor binomial_filter() { return setup_filter(std::vector<double>{1, 3, 3, 1}); }

std::optional<double> scaled(const std::optional<double>& clamp, double gain) {
  return clamp ? std::optional<double>(*clamp * gain) : std::nullopt;
}

BiasAct activation(Activation act, const std::optional<double>& clamp, double gain) {
  BiasAct how;
  how.act = act;
  how.gain = default_gain(act) * gain;
  how.clamp = scaled(clamp, gain);
  return how;
}

// x in another type and layout by one kernel, and its gradient in x's own. The layout is chosen for
// maps alone.
struct Recast : torch::autograd::Function<Recast> {
  struct Form {
    at::ScalarType type;
    at::MemoryFormat layout;
  };

  static Tensor forward(AutogradContext* context, const Tensor& x, const Form& form) {
    context->set_materialize_grads(false);
    hold(context, "form", Form{x.scalar_type(), x.suggest_memory_format()});
    return x.to(form.type, /*non_blocking=*/false, /*copy=*/false, form.layout);
  }

  static variable_list backward(AutogradContext* context, variable_list g) {
    if (!g[0].defined()) return {Tensor(), Tensor()};
    return {apply(g[0], held<Form>(context, "form")), Tensor()};
  }
};

// Tensor cores read half types channels-last, and float32 engines of GPUs planes: cuDNN reorders
// other maps, and LibTorch the weights, at every call.
bool leaves_tensor_cores(const Tensor& x, at::ScalarType type) {
  return is_gpu(x.device()) && x.dim() == 4 && kernels_in_use() == KernelSet::kAuto &&
         type == at::kFloat && x.scalar_type() != at::kFloat;
}

}  // namespace

at::ScalarType block_type(at::ScalarType type, bool half, const Tensor& parameter) {
  const at::ScalarType own = parameter.scalar_type();
  if (half && own == at::kFloat && !in_float32()) return at::kHalf;
  return autocast_is_on() ? type : own;
}

Tensor in_block_type(const Tensor& x, bool half, const Tensor& parameter) {
  const at::ScalarType type = block_type(x.scalar_type(), half, parameter);
  if (leaves_tensor_cores(x, type))
    return Recast::apply(x, Recast::Form{type, at::MemoryFormat::Contiguous});
  return x.to(type);
}

FullyConnected::FullyConnected(const Config& c) : config(c) {
  weight = register_parameter("weight", torch::zeros({c.out, c.in}));
  bias = register_parameter("bias", torch::full({c.out}, c.bias));
}

Tensor FullyConnected::forward(const Tensor& x) {
  const AutocastDisabled exact("latents and styles scale everything else");
  const double gain = config.lr_multiplier / std::sqrt(static_cast<double>(config.in));
  const Tensor y = scaled_linear(
      x.to(weight.scalar_type()), weight, bias, {.product = gain, .bias = config.lr_multiplier});
  return config.act == Activation::kLinear
             ? y
             : bias_act(y, {}, activation(config.act, std::nullopt, 1));
}

ResamplingConv2d::ResamplingConv2d(const Config& c) : config(c) {
  const auto add = [&](const char* name, const Tensor& value) {
    return c.trainable ? register_parameter(name, value) : register_buffer(name, value);
  };
  weight = add("weight", torch::zeros({c.out, c.in, c.kernel, c.kernel}));
  if (c.bias) bias = add("bias", torch::zeros({c.out}));
  resample_filter = register_buffer("resample_filter", binomial_filter());
}

Tensor ResamplingConv2d::forward(const Tensor& x, double gain, const Tensor& added) {
  const int64_t pad = config.kernel / 2;
  ConvResample how;
  how.up = config.up;
  how.down = config.down;
  how.padding = {pad, pad, pad, pad};
  // Kernels of upsampling layers are stored for true convolution.
  how.flip_weight = config.up == 1;
  return convolved(x, how, gain, added);
}

// A kernel of one pixel convolves what the filter leaves, as conv2d_resample() does.
ResamplingConv2d::Beside ResamplingConv2d::forward_beside(const Tensor& x, double gain) {
  const bool filters_first = config.kernel == 1 && config.down > 1 && config.up == 1;
  if (!filters_first || !launches_cost(x) || convolution_type(x) != x.scalar_type())
    return {x, forward(x, gain)};
  UpFirDn filter;
  filter.down = {config.down, config.down};
  filter.padding = centred_down({}, resample_filter, filter.down);
  const Filtered found = upfirdn2d_beside(x, resample_filter, filter);
  return {found.x, convolved(found.filtered, {}, gain)};
}

Tensor ResamplingConv2d::convolved(const Tensor& x,
                                   const ConvResample& how,
                                   double gain,
                                   const Tensor& added) {
  const auto fan_in = static_cast<double>(config.in * config.kernel * config.kernel);
  double scale = 1 / std::sqrt(fan_in);
  const BiasAct act = activation(config.act, config.clamp, gain);
  const auto finished = [&](const Tensor& w, const ModulatedAct& terms) {
    const Tensor y = conv2d_resample(x, w, resample_filter, how);
    return added.defined() ? modulated_act_beside(added, y, terms, act)
                           : modulated_act(y, terms, act);
  };
  const bool only_scales = config.act == Activation::kLinear && !config.bias && !config.clamp;
  if (only_scales && !added.defined() && launches_cost(x)) {
    // A factor of the weight spares two passes over the maps.
    scale *= act.gain.value_or(1);
    return conv2d_resample(x, convolution_weight(weight, scale, x), resample_filter, how);
  }
  if (scale_is_free(x)) return finished(weight, {.bias = bias, .scale = scale});
  return finished(convolution_weight(weight, scale, x), {.bias = bias});
}

ModulatedLayer::ModulatedLayer(const Config& c) : config(c) {
  weight = register_parameter("weight", torch::zeros({c.out, c.in, 3, 3}));
  noise_strength = register_parameter("noise_strength", torch::zeros({}));
  bias = register_parameter("bias", torch::zeros({c.out}));
  resample_filter = register_buffer("resample_filter", binomial_filter());
  noise_const =
      register_buffer("noise_const", torch::zeros({c.resolution.height, c.resolution.width}));
  affine = register_module("affine",
                           std::make_shared<FullyConnected>(
                               FullyConnected::Config{.in = c.w_dim, .out = c.in, .bias = 1}));
}

Tensor ModulatedLayer::forward(
    const Tensor& x, const Tensor& w, const NoiseInputs& noise, bool fused, double gain) {
  return forward({x, {}, affine->forward(w)}, noise, fused, gain, NextConv{}).x;
}

StyledMaps ModulatedLayer::forward(
    const StyledMaps& in, const NoiseInputs& noise, bool fused, double gain, const NextConv& next) {
  ModulatedConv how;
  how.up = config.up;
  how.padding = 1;
  how.flip_weight = config.up == 1;
  how.fused = fused;
  const Tensor added = noise ? noise(config.layer, config.resolution) : noise_const;
  return modulated_layer(in,
                         weight,
                         resample_filter,
                         how,
                         {.noise = added, .strength = noise_strength, .bias = bias},
                         activation(Activation::kLrelu, config.clamp, gain),
                         next);
}

ModulatedToRgb::ModulatedToRgb(const Config& c) : config(c) {
  weight = register_parameter("weight", torch::zeros({c.channels, c.in, 1, 1}));
  bias = register_parameter("bias", torch::zeros({c.channels}));
  affine = register_module("affine",
                           std::make_shared<FullyConnected>(
                               FullyConnected::Config{.in = c.w_dim, .out = c.in, .bias = 1}));
}

Tensor ModulatedToRgb::forward(const Tensor& x, const Tensor& w, bool fused) {
  ModulatedConv how;
  how.demodulate = false;
  how.fused = fused;
  // Without demodulation the equalised learning rate needs its factor; the styles are multiplied by
  // it.
  const Tensor styles = affine->forward(w) * (1 / std::sqrt(static_cast<double>(config.in)));
  return modulated_layer(
      x, weight, styles, {}, how, {.bias = bias}, activation(Activation::kLinear, config.clamp, 1));
}

void initialise_style_layers(torch::nn::Module& network, const std::string& player, uint64_t seed) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : state_of(network)) {
    if (name.ends_with("weight") || name.ends_with("const"))
      tensor.copy_(normal_like(tensor, seed, "init/" + player + "/" + name));
  }
  const auto slow_down = [](torch::nn::Module& module) {
    if (auto* dense = dynamic_cast<FullyConnected*>(&module))
      dense->weight.div_(dense->config.lr_multiplier);
  };
  slow_down(network);
  for (const auto& module : network.modules(/*include_self=*/false)) slow_down(*module);
}

StyleMapping::StyleMapping(const MappingShape& s) : shape(s) {
  if (s.has_w_avg) w_avg = register_buffer("w_avg", torch::zeros({s.w_dim}));
  if (s.c_dim > 0) {
    embed = register_module("embed",
                            std::make_shared<FullyConnected>(
                                FullyConnected::Config{.in = s.c_dim, .out = s.embedding()}));
  }
  int64_t in = s.z_dim + s.embedding();
  for (int64_t i = 0; i < s.num_layers; ++i) {
    const bool last = i + 1 == s.num_layers;
    const int64_t out = last ? s.w_dim : s.layer_features.value_or(s.w_dim);
    fc.push_back(register_module(
        "fc" + std::to_string(i),
        std::make_shared<FullyConnected>(FullyConnected::Config{
            .in = in, .out = out, .act = Activation::kLrelu, .lr_multiplier = s.lr_multiplier})));
    in = out;
  }
}

namespace {

// [N, classes]: 1 where the class is the label, or vectors as they are. at::one_hot would ask for
// the largest label, which waits for the device.
Tensor one_hot(const Tensor& labels, int64_t classes, const at::TensorOptions& options) {
  if (labels.dim() == 2) return labels.to(options);
  const Tensor index = labels.to(options.device()).unsqueeze(1);
  return at::zeros({labels.size(0), classes}, options).scatter_(1, index, 1);
}

}  // namespace

Tensor StyleMapping::forward(const Tensor& z, const Tensor& labels) {
  const AutocastDisabled exact("latents and styles scale everything else");
  note_computed(fc.front()->weight.scalar_type());
  const auto options = fc.front()->weight.options().requires_grad(false);
  Tensor x;
  if (shape.z_dim > 0) x = pixel_norm(z.to(options));
  if (embed) {
    TORCH_CHECK(labels.defined(), "a conditional network needs labels");
    const Tensor y = pixel_norm(embed->forward(one_hot(labels, shape.c_dim, options)));
    x = x.defined() ? torch::cat({x, y}, 1) : y;
  }
  for (const auto& layer : fc) x = layer->forward(x);
  return x;
}

int64_t layers_at(int64_t pixels) { return 2 * doublings(pixels) + 2; }

Tensor for_all_layers(const Tensor& w, int64_t layers) {
  return w.unsqueeze(1).expand({w.size(0), layers, w.size(1)});
}

Tensor truncated(const Tensor& ws,
                 const Tensor& w_average,
                 double psi,
                 std::optional<int64_t> cutoff) {
  if (psi == 1) return ws;
  const int64_t layers = ws.size(1);
  const int64_t first = std::clamp<int64_t>(cutoff.value_or(layers), 0, layers);
  const Tensor moved = w_average + (ws.narrow(1, 0, first) - w_average) * psi;
  return at::cat({moved, ws.narrow(1, first, layers - first)}, 1);
}

namespace {

// The cut among `layers` layers, on the host.
int64_t read_cutoff(const Tensor& cutoff, int64_t layers) {
  return std::clamp<int64_t>(static_cast<int64_t>(read_free(cutoff)), 0, layers);
}

Tensor mix_on_device(const Tensor& ws, const Tensor& others, const Tensor& cutoff) {
  const Tensor layer = at::arange(ws.size(1), cutoff.options()).unsqueeze(1);  // [layers, 1]
  return at::where(layer < cutoff, ws, others);
}

}  // namespace

Tensor mix_styles(const Tensor& ws, const Tensor& others, const Tensor& cutoff) {
  if (!reads_are_free(cutoff.device())) return mix_on_device(ws, others, cutoff);
  const int64_t layers = ws.size(1), first = read_cutoff(cutoff, layers);
  return at::cat({ws.narrow(1, 0, first), others.narrow(1, first, layers - first)}, 1);
}

Tensor mix_styles(const Tensor& w, const Tensor& other, const Tensor& cutoff, int64_t layers) {
  if (!reads_are_free(cutoff.device()))
    return mix_on_device(for_all_layers(w, layers), for_all_layers(other, layers), cutoff);
  const int64_t first = read_cutoff(cutoff, layers);
  return at::cat({for_all_layers(w, first), for_all_layers(other, layers - first)}, 1);
}

bool known_not_to_mix(const Tensor& cutoff, int64_t layers) {
  return reads_are_free(cutoff.device()) && read_cutoff(cutoff, layers) == layers;
}

Tensor sum_of_w(const Tensor& w) {
  const Tensor values = w.detach();
  return at::cat({values.mean(0), at::ones({1}, values.options())});
}

Tensor mean_of_w(const Tensor& sum) {
  const int64_t w_dim = sum.size(0) - 1;
  return sum.narrow(0, 0, w_dim) / sum.narrow(0, w_dim, 1);
}

void move_w_average_(Tensor average, const Tensor& mean, double beta) {
  const torch::NoGradGuard no_grad;
  average.lerp_(mean.detach().to(average.options()), 1 - beta);
}

namespace {

const double kRootHalf = std::sqrt(0.5);

int64_t embedding(const StyleDiscriminatorShape& s) {
  return s.c_dim == 0 ? 0 : s.cmap_dim.value_or(s.blocks.channels(4));
}

}  // namespace

StyleDiscriminatorBlock::StyleDiscriminatorBlock(const StyleDiscriminatorShape& s,
                                                 int64_t r,
                                                 int64_t first_layer)
    : name("b" + std::to_string(r)),
      half(s.blocks.half(r)),
      keeps_image(s.blocks.architecture == BlockArchitecture::kSkip) {
  const StyleBlocks& b = s.blocks;
  const int64_t in = b.channels(r), out = b.channels(r / 2);
  resample_filter =
      register_buffer("resample_filter", setup_filter(std::vector<double>{1, 3, 3, 1}));
  const auto add = [&](const char* name, ResamplingConv2d::Config config) {
    config.trainable = first_layer + layers++ >= s.freeze_layers;
    return register_module(name, std::make_shared<ResamplingConv2d>(config));
  };
  ResamplingConv2d::Config config{.act = Activation::kLrelu, .clamp = b.conv_clamp};
  const auto sized = [&](int64_t from, int64_t to, int64_t kernel) {
    config.in = from;
    config.out = to;
    config.kernel = kernel;
    return config;
  };
  if (keeps_image || r == b.nominal()) fromrgb = add("fromrgb", sized(b.img_channels, in, 1));
  conv0 = add("conv0", sized(in, in, 3));
  config.down = 2;
  conv1 = add("conv1", sized(in, out, 3));
  if (b.architecture == BlockArchitecture::kResnet)
    skip = add("skip", {.in = in, .out = out, .kernel = 1, .bias = false, .down = 2});
}

Canvas StyleDiscriminatorBlock::forward(const Canvas& in) {
  const BlockScope named(name);
  Tensor x = in.x.defined() ? in_block_type(in.x, half, conv0->weight) : in.x;
  if (fromrgb) {
    const Tensor seen = fromrgb->forward(in_block_type(in.img, half, conv0->weight));
    x = x.defined() ? x + seen : seen;
  }
  const Tensor img = keeps_image ? downsample2d(in.img, resample_filter) : Tensor();
  Tensor around;
  if (skip) {
    const ResamplingConv2d::Beside both = skip->forward_beside(x, kRootHalf);
    x = both.x;
    around = both.result;
  }
  return {conv1->forward(conv0->forward(x), skip ? kRootHalf : 1, around), img};
}

StyleDiscriminatorEpilogue::StyleDiscriminatorEpilogue(const StyleDiscriminatorShape& s)
    : group(s.mbstd_group_size), group_channels(s.mbstd_num_channels) {
  const StyleBlocks& b = s.blocks;
  const int64_t c = b.channels(4);
  if (b.architecture == BlockArchitecture::kSkip || b.nominal() == 4) {
    const ResamplingConv2d::Config rgb{
        .in = b.img_channels, .out = c, .kernel = 1, .act = Activation::kLrelu};
    fromrgb = register_module("fromrgb", std::make_shared<ResamplingConv2d>(rgb));
  }
  const ResamplingConv2d::Config three{.in = c + group_channels,
                                       .out = c,
                                       .kernel = 3,
                                       .act = Activation::kLrelu,
                                       .clamp = b.conv_clamp};
  conv = register_module("conv", std::make_shared<ResamplingConv2d>(three));
  const FullyConnected::Config wide{
      .in = c * b.size_at(4).pixels(), .out = c, .act = Activation::kLrelu};
  fc = register_module("fc", std::make_shared<FullyConnected>(wide));
  const FullyConnected::Config last{.in = c, .out = s.c_dim == 0 ? 1 : embedding(s)};
  out = register_module("out", std::make_shared<FullyConnected>(last));
}

Tensor StyleDiscriminatorEpilogue::forward(const Canvas& in) {
  const BlockScope named("b4");
  const AutocastDisabled exact("the last block: statistics of the batch, and scores");
  const at::ScalarType dtype = conv->weight.scalar_type();
  Tensor x = in.x.defined() ? in.x.to(dtype) : in.x;
  if (fromrgb) {
    const Tensor seen = fromrgb->forward(in.img.to(dtype));
    x = x.defined() ? x + seen : seen;
  }
  if (group_channels > 0) x = minibatch_std(x, group, group_channels);
  x = conv->forward(x);
  return out->forward(fc->forward(x.flatten(1)));
}

StyleDiscriminator::StyleDiscriminator(const StyleDiscriminatorShape& s) : shape(s) {
  int64_t layers = 0;
  for (int64_t r = s.blocks.nominal(); r > 4; r /= 2) {
    const auto block = std::make_shared<StyleDiscriminatorBlock>(s, r, layers);
    blocks.push_back(register_module(block->name, block));
    layers += blocks.back()->layers;
  }
  if (s.c_dim > 0) {
    MappingShape embed;
    embed.z_dim = 0;
    embed.c_dim = s.c_dim;
    embed.w_dim = embedding(s);
    embed.has_w_avg = false;
    mapping = register_module("mapping", std::make_shared<StyleMapping>(embed));
  }
  b4 = register_module("b4", std::make_shared<StyleDiscriminatorEpilogue>(s));
}

std::vector<std::string> StyleDiscriminator::layer_names() const {
  std::vector<std::string> names;
  for (const auto& block : blocks) {
    const std::pair<const char*, bool> all[] = {{"fromrgb", block->fromrgb != nullptr},
                                                {"conv0", true},
                                                {"conv1", true},
                                                {"skip", block->skip != nullptr}};
    for (const auto& [name, is_there] : all) {
      if (is_there) names.push_back(block->name + "." + name);
    }
  }
  return names;
}

Tensor StyleDiscriminator::forward(const Tensor& img, const Tensor& labels) {
  Canvas canvas{{}, img.to(b4->conv->weight.scalar_type())};
  for (const auto& block : blocks) canvas = block->forward(canvas);
  const Tensor x = b4->forward(canvas);
  if (!mapping) return x;
  const BlockScope named("mapping");
  const Tensor class_embedding = mapping->forward({}, labels);
  const double scale = 1 / std::sqrt(static_cast<double>(x.size(1)));
  return (x * class_embedding).sum(1, /*keepdim=*/true) * scale;
}

}  // namespace gantrain
