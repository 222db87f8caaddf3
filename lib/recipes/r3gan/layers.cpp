// SPDX-License-Identifier: Apache-2.0
#include "recipes/r3gan/layers.h"

#include "core/forward_precision.h"
#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/bias_act.h"
#include "ops/convolution.h"
#include "ops/upfirdn2d.h"

namespace gantrain::r3gan {

using at::Tensor;

namespace {

// A child of which only the buffer's name matters.
struct Resampler final : torch::nn::Module {
  Resampler() { kernel = register_buffer("Kernel", setup_filter(std::vector<double>{1, 3, 3, 1})); }
  Tensor kernel;
};

}  // namespace

Convolution::Convolution(const Config& c) : config(c) {
  layer = register_module(
      "Layer",
      std::make_shared<Weight>(std::vector<int64_t>{c.out, c.in / c.groups, c.kernel, c.kernel}));
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
    return register_module(name, std::make_shared<Convolution>(config));
  };
  linear1 = convolution("LinearLayer1", {.in = c.width, .out = inner});
  linear2 = convolution("LinearLayer2",
                        {.in = inner, .out = inner, .kernel = 3, .groups = c.cardinality});
  linear3 = convolution("LinearLayer3", {.in = inner, .out = c.width});
  act1 = register_module("NonLinearity1", std::make_shared<BiasedActivation>(inner));
  act2 = register_module("NonLinearity2", std::make_shared<BiasedActivation>(inner));
}

Tensor ResidualBlock::forward(const Tensor& x) {
  Tensor y = act1->forward(linear1->forward(x));
  y = act2->forward(linear2->forward(y));
  return x + linear3->forward(y);
}

Transition::Transition(int64_t in, int64_t out, Change how) : change(how) {
  kernel = register_module("Resampler", std::make_shared<Resampler>())->kernel;
  if (in != out) {
    linear = register_module(
        "LinearLayer", std::make_shared<Convolution>(Convolution::Config{.in = in, .out = out}));
  }
}

Tensor Transition::forward(const Tensor& x) {
  if (change == Change::kTwiceAsLarge) return upsample2d(linear ? linear->forward(x) : x, kernel);
  const Tensor y = downsample2d(x, kernel);
  return linear ? linear->forward(y) : y;
}

GenerativeBasis::GenerativeBasis(int64_t in, int64_t out, const Size& size)
    : basis(register_parameter("Basis", torch::zeros({out, size.height, size.width}))),
      linear(register_module("LinearLayer",
                             std::make_shared<Weight>(std::vector<int64_t>{out, in}))) {}

Tensor GenerativeBasis::forward(const Tensor& x) {
  const AutocastDisabled exact("the start scales everything else");
  const Tensor y = autocast_linear(x.to(basis.scalar_type()), linear->weight);
  return in_fast_layout(basis * y.reshape({y.size(0), -1, 1, 1}));
}

DiscriminativeBasis::DiscriminativeBasis(int64_t in, int64_t out, const Size& size)
    : basis(register_module(
          "Basis", std::make_shared<Weight>(std::vector<int64_t>{in, 1, size.height, size.width}))),
      linear(register_module("LinearLayer",
                             std::make_shared<Weight>(std::vector<int64_t>{out, in}))) {}

// The kernel covers the feature maps, so that a product and a sum are the convolution.
Tensor DiscriminativeBasis::forward(const Tensor& x) {
  const AutocastDisabled exact("the last block: scores");
  const Tensor y = (x.to(basis->weight.scalar_type()) * basis->weight.squeeze(1)).sum({2, 3});
  return autocast_linear(y, linear->weight);
}

}  // namespace gantrain::r3gan
