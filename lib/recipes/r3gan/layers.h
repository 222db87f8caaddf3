// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>

#include "util/size.h"

namespace gantrain::r3gan {

// The layers of Huang et al. 2024, sec. 3 and fig. 4. None of them has a bias or a normalisation;
// modules and tensors have the reference's names.

// A child module that holds one weight.
struct Weight final : torch::nn::Module {
  explicit Weight(at::IntArrayRef shape) : weight(register_parameter("weight", at::zeros(shape))) {}
  at::Tensor weight;
};

// x [N, in, H, W] -> [N, out, H, W]: kernel 1 or 3, padded to keep the size, in `groups` parts.
struct Convolution final : torch::nn::Module {
  struct Config {
    int64_t in = 1, out = 1, kernel = 1, groups = 1;
  };
  explicit Convolution(const Config& config);
  at::Tensor forward(const at::Tensor& x);

  Config config;
  std::shared_ptr<Weight> layer;  // "Layer"
};

// Leaky ReLU of x + Bias, slope .2, without a gain.
struct BiasedActivation final : torch::nn::Module {
  explicit BiasedActivation(int64_t channels);
  at::Tensor forward(const at::Tensor& x);

  at::Tensor bias;  // "Bias"
};

// x + L3(act(L2(act(L1 x)))): an inverted bottleneck around a grouped 3x3 convolution (sec. 3,
// config E).
struct ResidualBlock final : torch::nn::Module {
  struct Config {
    int64_t width = 1, cardinality = 1, expansion = 2;
  };
  explicit ResidualBlock(const Config& config);
  at::Tensor forward(const at::Tensor& x);

  std::shared_ptr<Convolution> linear1, linear2, linear3;  // "LinearLayer1" to "LinearLayer3"
  std::shared_ptr<BiasedActivation> act1, act2;            // "NonLinearity1", "NonLinearity2"
};

enum class Change { kTwiceAsLarge, kHalfAsLarge };

// Between two stages: resampling with [1, 3, 3, 1], and a 1x1 convolution where widths differ: G
// convolves before it doubles the size, D after it has halved it.
struct Transition final : torch::nn::Module {
  Transition(int64_t in, int64_t out, Change change);
  at::Tensor forward(const at::Tensor& x);

  Change change;
  at::Tensor kernel;                    // "Resampler.Kernel"
  std::shared_ptr<Convolution> linear;  // "LinearLayer"; null where widths are the same
};

// x [N, in] -> [N, out, h, w], G's start: learned pictures times a linear function of x, one of
// each for a feature map.
struct GenerativeBasis final : torch::nn::Module {
  GenerativeBasis(int64_t in, int64_t out, const Size& size);
  at::Tensor forward(const at::Tensor& x);

  at::Tensor basis;                // "Basis"
  std::shared_ptr<Weight> linear;  // "LinearLayer"
};

// x [N, in, h, w] -> [N, out], D's end: a depth-wise convolution that leaves one pixel, and a
// linear function of it.
struct DiscriminativeBasis final : torch::nn::Module {
  DiscriminativeBasis(int64_t in, int64_t out, const Size& size);
  at::Tensor forward(const at::Tensor& x);

  std::shared_ptr<Weight> basis, linear;  // "Basis", "LinearLayer"
};

}  // namespace gantrain::r3gan
