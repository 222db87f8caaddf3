// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/torch.h"
#include "gan/model_json.h"
#include "ops/autocast.h"
#include "ops/bias_act/bias_act.h"
#include "ops/convolution/convolution.h"
#include "ops/upfirdn2d/upfirdn2d.h"
#include "recipes/r3gan/recipe.h"
#include "util/text.h"

namespace gantrain::r3gan {

namespace {

const std::string kStages = "Model.MainLayers.";

std::string layer_name(int64_t stage, int64_t layer, const char* weight) {
  return fmt::format("{}Layers.{}.{}", stage_name(stage), layer, weight);
}

// Layers 1 and on of a stage are its blocks. One of them that lacks a tensor counts too: loading
// names the tensor. No file has more layers than tensors.
int64_t blocks_of(const TensorMap& tensors, int64_t stage) {
  const std::string begin = stage_name(stage) + "Layers.";
  int64_t blocks = 1;
  for (const auto& item : tensors) {
    if (!item.first.starts_with(begin)) continue;
    const auto layer = parse_int(split(item.first.substr(begin.size()), '.').front()).value_or(0);
    if (layer < static_cast<int64_t>(tensors.size())) blocks = std::max(blocks, layer);
  }
  return blocks;
}

// Adds the stage whose blocks begin with layer 1.
void read_stage(const GeneratorTensors& given, int64_t stage, Shape& shape) {
  const auto weight = [&](int64_t layer, const char* name) {
    return layer_name(stage, layer, name) + ".Layer.weight";
  };
  const Tensor& in = given.get(weight(1, "LinearLayer1"), 4);
  const Tensor& middle = given.get(weight(1, "LinearLayer2"), 4);
  const int64_t width = in.size(1), inner = in.size(0), of_group = middle.size(1);
  if (inner % width != 0 || middle.size(0) != inner || inner % of_group != 0) {
    refuse_file(
        given.source,
        "tensors {} [{}] and {} [{}] do not make a block: the first widens its feature maps to "
        "a multiple, which the second shares out among groups",
        weight(1, "LinearLayer1"),
        fmt::join(in.sizes(), ", "),
        weight(1, "LinearLayer2"),
        fmt::join(middle.sizes(), ", "));
  }
  if (stage > 0 && inner / width != shape.expansion) {
    refuse_file(given.source,
                "tensor {} widens {} times, the first block {} times",
                weight(1, "LinearLayer1"),
                inner / width,
                shape.expansion);
  }
  shape.expansion = inner / width;
  shape.widths.push_back(width);
  shape.cardinalities.push_back(inner / of_group);
  shape.blocks.push_back(blocks_of(given.tensors, stage));
}

Shape shape_of_tensors(const GeneratorTensors& given) {
  Shape shape;
  const std::string basis = layer_name(0, 0, "Basis");
  const Tensor& start = given.get(basis, 3);
  const auto size = find_doubled_size({start.size(2), start.size(1)});
  if (!size || size->doublings > 0) {
    refuse_file(given.source,
                "tensor {} has shape [{}]; the shorter side of a start has 4 to 7 pixels",
                basis,
                fmt::join(start.sizes(), ", "));
  }
  read_stage(given, 0, shape);
  const int64_t stages = stages_of(given.tensors, "");
  for (int64_t stage = 1; stage < stages; ++stage) read_stage(given, stage, shape);
  shape.img_resolution = size->at(int64_t{4} << (shape.stages() - 1));
  shape.img_channels = given.get("Model.AggregationLayer.Layer.weight", 4).size(0);
  shape.z_dim = given.get(layer_name(0, 0, "LinearLayer.weight"), 2).size(1);
  if (!given.has("Model.EmbeddingLayer.weight")) return shape;
  const Tensor& embedding = given.get("Model.EmbeddingLayer.weight", 2);
  shape.embedding = embedding.size(0);
  shape.c_dim = embedding.size(1);
  shape.z_dim -= shape.embedding;
  return shape;
}

}  // namespace

StageTensor stage_tensor(const std::string& name) {
  if (!name.starts_with(kStages)) return {-1, name};
  const size_t dot = name.find('.', kStages.size());
  const auto stage = parse_int(name.substr(kStages.size(), dot - kStages.size()));
  if (dot == std::string::npos || !stage || *stage < 0) return {-1, name};
  return {*stage, name.substr(dot + 1)};
}

std::string stage_name(int64_t stage) { return fmt::format("{}{}.", kStages, stage); }

int64_t stages_of(const TensorMap& tensors, const std::string& prefix) {
  int64_t stages = 0;
  for (const auto& item : tensors) {
    if (item.first.starts_with(prefix))
      stages = std::max(stages, stage_tensor(item.first.substr(prefix.size())).stage + 1);
  }
  return stages;
}

bool Shape::half(int64_t stage) const { return contains(half_stages, stage); }

Json to_json(const Shape& s) {
  Json model = {{"recipe", "r3gan"},
                {"NoiseDimension", s.z_dim},
                {"WidthPerStage", s.widths},
                {"CardinalityPerStage", s.cardinalities},
                {"BlocksPerStage", s.blocks},
                {"ExpansionFactor", s.expansion},
                {"FP16Stages", s.half_stages},
                {"c_dim", s.c_dim},
                {"img_resolution", Value<Size>::to_json(s.img_resolution)},
                {"img_channels", s.img_channels}};
  if (s.c_dim > 0) model["ConditionEmbeddingDimension"] = s.embedding;
  return model;
}

Shape generator_shape(const Json& model, const TensorMap& tensors, const std::string& source) {
  const Shape seen = shape_of_tensors({tensors, source, "an R3GAN generator"});
  if (model.is_null()) return seen;
  if (!model.is_object()) refuse_file(source, "gantrain.model: not a JSON object");
  const Json of_tensors = to_json(seen);
  for (const auto& [key, value] : of_tensors.items()) {
    const bool said = key != "recipe" && key != "FP16Stages" && model.contains(key);
    if (said && !model[key].is_null() && model[key] != value) {
      refuse_file(source,
                  "gantrain.model: {} = {}, but the tensors have {}",
                  key,
                  model[key].dump(),
                  value.dump());
    }
  }
  return seen;
}

namespace {

// A child of which only the buffer's name matters.
struct Resampler final : torch::nn::Module {
  Resampler() { kernel = register_buffer("Kernel", setup_filter(std::vector<double>{1, 3, 3, 1})); }
  Tensor kernel;
};

}  // namespace

Convolution::Convolution(const Config& c) : config(c) {
  layer = add_child<Weight>(
      *this, "Layer", at::IntArrayRef({c.out, c.in / c.groups, c.kernel, c.kernel}));
}

Tensor Convolution::forward(const Tensor& x) {
  const int64_t padding = config.kernel / 2;
  return autocast_conv2d(x, layer->weight, {}, {1, {padding, padding}, config.groups});
}

BiasedActivation::BiasedActivation(int64_t channels)
    : bias(register_parameter("Bias", torch::zeros({channels}))) {}

Tensor BiasedActivation::forward(const Tensor& x) {
  BiasAct how;
  how.act = Activation::kLrelu;
  how.gain = 1;
  return bias_act(x, bias, how);
}

ResidualBlock::ResidualBlock(const Config& c) {
  const int64_t inner = c.width * c.expansion;
  const auto convolution = [this](const char* name, const Convolution::Config& config) {
    return add_child<Convolution>(*this, name, config);
  };
  linear1 = convolution("LinearLayer1", {.in = c.width, .out = inner});
  linear2 = convolution("LinearLayer2",
                        {.in = inner, .out = inner, .kernel = 3, .groups = c.cardinality});
  linear3 = convolution("LinearLayer3", {.in = inner, .out = c.width});
  act1 = add_child<BiasedActivation>(*this, "NonLinearity1", inner);
  act2 = add_child<BiasedActivation>(*this, "NonLinearity2", inner);
}

Tensor ResidualBlock::forward(const Tensor& x) {
  Tensor y = act1->forward(linear1->forward(x));
  y = act2->forward(linear2->forward(y));
  return x + linear3->forward(y);
}

Transition::Transition(int64_t in, int64_t out, Change how) : change(how) {
  kernel = add_child<Resampler>(*this, "Resampler")->kernel;
  const Convolution::Config pixels{.in = in, .out = out};
  if (in != out) linear = add_child<Convolution>(*this, "LinearLayer", pixels);
}

Tensor Transition::forward(const Tensor& x) {
  if (change == Change::kTwiceAsLarge) return upsample2d(linear ? linear->forward(x) : x, kernel);
  const Tensor y = downsample2d(x, kernel);
  return linear ? linear->forward(y) : y;
}

GenerativeBasis::GenerativeBasis(int64_t in, int64_t out, const Size& size)
    : basis(register_parameter("Basis", torch::zeros({out, size.height, size.width}))),
      linear(add_child<Weight>(*this, "LinearLayer", at::IntArrayRef({out, in}))) {}

Tensor GenerativeBasis::forward(const Tensor& x) {
  const AutocastDisabled exact("the start scales everything else");
  const Tensor y = autocast_linear(x.to(basis.scalar_type()), linear->weight);
  return in_fast_layout(basis * y.reshape({y.size(0), -1, 1, 1}));
}

DiscriminativeBasis::DiscriminativeBasis(int64_t in, int64_t out, const Size& size)
    : basis(add_child<Weight>(*this, "Basis", at::IntArrayRef({in, 1, size.height, size.width}))),
      linear(add_child<Weight>(*this, "LinearLayer", at::IntArrayRef({out, in}))) {}

// The kernel covers the feature maps, so that a product and a sum are the convolution.
Tensor DiscriminativeBasis::forward(const Tensor& x) {
  const AutocastDisabled exact("the last block: scores");
  const Tensor y = (x.to(basis->weight.scalar_type()) * basis->weight.squeeze(1)).sum({2, 3});
  return autocast_linear(y, linear->weight);
}

NetworkStage::NetworkStage(int64_t number, bool in_half)
    : name(kStages + std::to_string(number)),
      half(in_half),
      layers(add_child<ModuleGroup>(*this, "Layers")) {}

namespace {

// Adds the layer "Layers.2" to a stage that has two.
template <class Layer, class... Args>
std::shared_ptr<Layer> add_layer(NetworkStage& to, Args&&... args) {
  const std::string name = std::to_string(to.layers->children().size());
  return add_child<Layer>(*to.layers, name, std::forward<Args>(args)...);
}

// Adds the next stage of `main`, whose stages so far are `stages`.
NetworkStage& add_stage(ModuleGroup& main,
                        bool half,
                        std::vector<std::shared_ptr<NetworkStage>>& stages) {
  const auto number = static_cast<int64_t>(stages.size());
  stages.push_back(add_child<NetworkStage>(main, std::to_string(number), number, half));
  return *stages.back();
}

void add_blocks(NetworkStage& to, const Shape& s, size_t of) {
  const ResidualBlock::Config config{s.widths[of], s.cardinalities[of], s.expansion};
  for (int64_t i = 0; i < s.blocks[of]; ++i)
    to.blocks.push_back(add_layer<ResidualBlock>(to, config));
}

// In the type that a stage computes in: bfloat16 in a float32 network, else its parameters'.
Tensor in_stage_type(const Tensor& x, bool half, const Tensor& parameter) {
  const at::ScalarType own = parameter.scalar_type();
  if (half && own == at::kFloat && !in_float32()) return x.to(at::kBFloat16);
  return autocast_is_on() ? x : x.to(own);
}

// The columns of the embedding's weight [features, classes] that the labels choose, or their sum
// with the numbers of a vector as factors: [N, features]. A product with a one-hot matrix has
// gradients that are the same in every run, on GPUs too.
Tensor embedded(const Tensor& weight, const Tensor& labels) {
  TORCH_CHECK(labels.defined(), "a conditional network needs labels");
  const AutocastDisabled exact("embedded classes");
  if (labels.dim() == 2) return autocast_linear(labels.to(weight.options()), weight);
  const Tensor index = labels.to(weight.device()).unsqueeze(1);
  const Tensor one_hot =
      at::zeros({labels.size(0), weight.size(1)}, weight.options()).scatter_(1, index, 1);
  return autocast_linear(one_hot, weight);
}

std::shared_ptr<Weight> add_embedding(ModuleGroup& model, int64_t features, int64_t classes) {
  if (classes == 0) return nullptr;
  return add_child<Weight>(model, "EmbeddingLayer", at::IntArrayRef({features, classes}));
}

}  // namespace

Generator::Generator(const Shape& s) : shape(s) {
  const auto model = add_child<ModuleGroup>(*this, "Model");
  const auto main = add_child<ModuleGroup>(*model, "MainLayers");
  const Size start = doubled_size(s.img_resolution).start;
  const int64_t in = s.z_dim + (s.c_dim > 0 ? s.embedding : 0);
  for (size_t i = 0; i < s.widths.size(); ++i) {
    NetworkStage& stage = add_stage(*main, s.half(static_cast<int64_t>(i)), stages);
    if (i == 0) {
      stage.start = add_layer<GenerativeBasis>(stage, in, s.widths[0], start);
    } else {
      stage.transition =
          add_layer<Transition>(stage, s.widths[i - 1], s.widths[i], Change::kTwiceAsLarge);
    }
    add_blocks(stage, s, i);
  }
  const Convolution::Config pixels{.in = s.widths.back(), .out = s.img_channels};
  to_image = add_child<Convolution>(*model, "AggregationLayer", pixels);
  embedding = add_embedding(*model, s.embedding, s.c_dim);
}

Tensor Generator::forward(const Tensor& z, const Tensor& labels) {
  const Tensor& own = to_image->layer->weight;
  Tensor x = z.to(own.scalar_type());
  if (embedding) {
    const BlockScope named("Model.EmbeddingLayer");
    x = at::cat({x, embedded(embedding->weight, labels)}, 1);
  }
  for (const auto& stage : stages) {
    const BlockScope named(stage->name);
    if (stage->start) x = stage->start->forward(x);
    x = in_stage_type(x, stage->half, own);
    if (stage->transition) x = stage->transition->forward(x);
    for (const auto& block : stage->blocks) x = block->forward(x);
  }
  const BlockScope named("Model.AggregationLayer");
  return to_image->forward(x);
}

Discriminator::Discriminator(const Shape& s) : shape(s) {
  const auto model = add_child<ModuleGroup>(*this, "Model");
  const auto main = add_child<ModuleGroup>(*model, "MainLayers");
  const Size start = doubled_size(s.img_resolution).start;
  const Convolution::Config pixels{.in = s.img_channels, .out = s.widths.back()};
  from_image = add_child<Convolution>(*model, "ExtractionLayer", pixels);
  for (size_t i = s.widths.size(); i-- > 0;) {
    NetworkStage& stage = add_stage(*main, s.half(static_cast<int64_t>(i)), stages);
    add_blocks(stage, s, i);
    if (i > 0) {
      stage.transition =
          add_layer<Transition>(stage, s.widths[i], s.widths[i - 1], Change::kHalfAsLarge);
    } else {
      stage.end =
          add_layer<DiscriminativeBasis>(stage, s.widths[0], s.c_dim > 0 ? s.widths[0] : 1, start);
    }
  }
  embedding = add_embedding(*model, s.widths[0], s.c_dim);
}

Tensor Discriminator::forward(const Tensor& pictures, const Tensor& labels) {
  const Tensor& own = from_image->layer->weight;
  Tensor x = in_stage_type(in_fast_layout(pictures), stages.front()->half, own);
  x = in_block("Model.ExtractionLayer", [&] { return from_image->forward(x); });
  for (const auto& stage : stages) {
    const BlockScope named(stage->name);
    x = in_stage_type(x, stage->half, own);
    for (const auto& block : stage->blocks) x = block->forward(x);
    x = stage->transition ? stage->transition->forward(x) : stage->end->forward(x);
  }
  if (!embedding) return x.reshape({-1});
  const BlockScope named("Model.EmbeddingLayer");
  return (x * embedded(embedding->weight, labels)).sum(1);
}

namespace {

// N(0, gain^2 / fan_in): all weights but those that are set below.
void draw(torch::nn::Module& network, const std::string& player, uint64_t seed, double block_gain) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : network.named_parameters()) {
    const std::string& name = item.key();
    const Tensor& p = item.value();
    if (name.ends_with("Bias") || name.ends_with("LinearLayer3.Layer.weight")) {
      p.zero_();
      continue;
    }
    const bool in_block =
        name.ends_with("LinearLayer1.Layer.weight") || name.ends_with("LinearLayer2.Layer.weight");
    const auto fan_in = static_cast<double>(p.numel() / p.size(0));
    // A generative basis holds pictures, not weights of a sum.
    const double deviation = p.dim() == 3 ? 1 : (in_block ? block_gain : 1) / std::sqrt(fan_in);
    p.copy_(deviation * normal_like(p, seed, "init/" + player + "/" + name));
  }
}

// The gain of a leaky ReLU of slope .2, for two layers of each block (He et al. 2015, eq. 14;
// Zhang et al. 2019, sec. 3).
double block_gain(const Shape& shape) {
  const double gain = std::sqrt(2 / (1 + 0.2 * 0.2));
  const int64_t blocks = std::accumulate(shape.blocks.begin(), shape.blocks.end(), int64_t{0});
  return gain * std::pow(static_cast<double>(blocks), -0.25);
}

}  // namespace

void initialise(Generator& network, const std::string& player, uint64_t seed) {
  draw(network, player, seed, block_gain(network.shape));
}

void initialise(Discriminator& network, const std::string& player, uint64_t seed) {
  draw(network, player, seed, block_gain(network.shape));
  if (!network.embedding) return;
  const torch::NoGradGuard no_grad;
  // So that a product with as many features has the scale of one of them.
  network.embedding->weight.div_(std::sqrt(static_cast<double>(network.shape.widths[0])));
}

}  // namespace gantrain::r3gan
