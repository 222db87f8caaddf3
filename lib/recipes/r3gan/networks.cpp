// SPDX-License-Identifier: Apache-2.0
#include "recipes/r3gan/networks.h"

#include <cmath>

#include "core/forward_precision.h"
#include "core/random.h"
#include "core/tensors.h"
#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/convolution.h"
#include "util/doubled_size.h"
#include "util/error.h"

namespace gantrain::r3gan {

using at::Tensor;

namespace {

// A child that has only children.
struct Group final : torch::nn::Module {};

std::shared_ptr<Group> add_group(torch::nn::Module& to, const std::string& name) {
  return to.register_module(name, std::make_shared<Group>());
}

// Adds layers "Layers.0", "Layers.1", ... to a stage.
class StageLayers {
 public:
  StageLayers(Group& main, int64_t number, bool half) : stage_(std::make_shared<NetworkStage>()) {
    main.register_module(std::to_string(number), stage_);
    layers_ = add_group(*stage_, "Layers");
    stage_->name = "Model.MainLayers." + std::to_string(number);
    stage_->half = half;
  }
  template <class Layer, class... Args>
  std::shared_ptr<Layer> add(Args&&... args) {
    return layers_->register_module(std::to_string(next_++),
                                    std::make_shared<Layer>(std::forward<Args>(args)...));
  }
  void add_blocks(const Shape& s, size_t of) {
    for (int64_t i = 0; i < s.blocks[of]; ++i) {
      stage_->blocks.push_back(add<ResidualBlock>(
          ResidualBlock::Config{s.widths[of], s.cardinalities[of], s.expansion}));
    }
  }
  const std::shared_ptr<NetworkStage>& stage() const { return stage_; }

 private:
  std::shared_ptr<NetworkStage> stage_;
  std::shared_ptr<Group> layers_;
  int64_t next_ = 0;
};

// In the type that a stage computes in: bfloat16 in a float32 network, else its parameters'.
Tensor in_stage_type(const Tensor& x, bool half, const Tensor& parameter) {
  const at::ScalarType own = parameter.scalar_type();
  if (half && own == at::kFloat && !in_float32()) return x.to(at::kBFloat16);
  return autocast_is_on() ? x : x.to(own);
}

// The columns of the embedding's weight [features, classes] that the labels choose: [N, features].
// A product with a one-hot matrix has gradients that are the same in every run, on GPUs too.
Tensor embedded(const Tensor& weight, const Tensor& labels) {
  TORCH_CHECK(labels.defined(), "a conditional network needs labels");
  const AutocastDisabled exact("embedded classes");
  const Tensor index = labels.to(weight.device()).unsqueeze(1);
  const Tensor one_hot =
      at::zeros({labels.size(0), weight.size(1)}, weight.options()).scatter_(1, index, 1);
  return autocast_linear(one_hot, weight);
}

std::shared_ptr<Weight> add_embedding(Group& model, int64_t features, int64_t classes) {
  if (classes == 0) return nullptr;
  return model.register_module("EmbeddingLayer",
                               std::make_shared<Weight>(std::vector<int64_t>{features, classes}));
}

}  // namespace

Generator::Generator(const Shape& s) : shape(s) {
  const auto model = add_group(*this, "Model");
  const auto main = add_group(*model, "MainLayers");
  const Size start = doubled_size(s.img_resolution).start;
  const int64_t in = s.z_dim + (s.c_dim > 0 ? s.embedding : 0);
  for (size_t i = 0; i < s.widths.size(); ++i) {
    StageLayers layers(*main, static_cast<int64_t>(i), s.half(static_cast<int64_t>(i)));
    NetworkStage& stage = *layers.stage();
    if (i == 0) {
      stage.start = layers.add<GenerativeBasis>(in, s.widths[0], start);
    } else {
      stage.transition =
          layers.add<Transition>(s.widths[i - 1], s.widths[i], Change::kTwiceAsLarge);
    }
    layers.add_blocks(s, i);
    stages.push_back(layers.stage());
  }
  to_image = model->register_module("AggregationLayer",
                                    std::make_shared<Convolution>(Convolution::Config{
                                        .in = s.widths.back(), .out = s.img_channels}));
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
  const auto model = add_group(*this, "Model");
  const auto main = add_group(*model, "MainLayers");
  const Size start = doubled_size(s.img_resolution).start;
  from_image = model->register_module("ExtractionLayer",
                                      std::make_shared<Convolution>(Convolution::Config{
                                          .in = s.img_channels, .out = s.widths.back()}));
  for (size_t i = s.widths.size(); i-- > 0;) {
    const auto number = static_cast<int64_t>(s.widths.size() - 1 - i);
    StageLayers layers(*main, number, s.half(static_cast<int64_t>(i)));
    layers.add_blocks(s, i);
    NetworkStage& stage = *layers.stage();
    if (i > 0) {
      stage.transition = layers.add<Transition>(s.widths[i], s.widths[i - 1], Change::kHalfAsLarge);
    } else {
      stage.end =
          layers.add<DiscriminativeBasis>(s.widths[0], s.c_dim > 0 ? s.widths[0] : 1, start);
    }
    stages.push_back(layers.stage());
  }
  embedding = add_embedding(*model, s.widths[0], s.c_dim);
}

Tensor Discriminator::forward(const Tensor& pictures, const Tensor& labels) {
  const Tensor& own = from_image->layer->weight;
  Tensor x = in_stage_type(in_fast_layout(pictures), stages.front()->half, own);
  {
    const BlockScope named("Model.ExtractionLayer");
    x = from_image->forward(x);
  }
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
  return gain * std::pow(static_cast<double>(shape.all_blocks()), -0.25);
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
