// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <string>
#include <vector>

namespace gantrain {

// The gain of layers that a leaky ReLU follows (He et al. 2015); linear layers have 1.
constexpr double kHeGain = 1.41421356237309504880;

// The weight and bias of a layer with equalised learning rate (Karras et al. 2018a, sec. 4.1): the
// weight is stored with unit variance and multiplied by gain / sqrt(fan-in) where it is used. `lr`
// below 1 makes the layer learn slower by that factor (Karras et al. 2019, app. C): weight and bias
// are multiplied by `lr` where they are used, and the initial weight is divided by it. Both are
// zero until initialise_equalised().
struct Equalised final : torch::nn::Module {
  struct Shape {
    std::vector<int64_t> weight;  // its shape: [out, in] or [out, in, k, k]
    int64_t bias = 0;             // length; 0: no bias
    double gain = kHeGain;
    double lr = 1;
  };
  explicit Equalised(const Shape& shape);
  at::Tensor w() const;  // the weight with its factors
  at::Tensor b() const;

  at::Tensor weight, bias;
  double scale, lr;
};

Equalised::Shape dense_shape(int64_t in, int64_t out, double gain = kHeGain, double lr = 1);
// A k x k convolution with a bias.
Equalised::Shape conv_shape(int64_t in, int64_t out, int64_t k, double gain = kHeGain);

// A dense layer: flattens x [N, ...] and returns W x + b, [N, out].
at::Tensor dense(const at::Tensor& x, const Equalised& layer);
// A k x k convolution that keeps the picture's size, without and with the layer's bias.
at::Tensor conv_without_bias(const at::Tensor& x, const Equalised& layer);
at::Tensor conv(const at::Tensor& x, const Equalised& layer);
// Returns leaky ReLU (negative slope .2) of convolve(w) + b, where convolve is linear in the weight
// w. For float32 on a CPU the weight's factor multiplies the convolution's result instead, in the
// pass that adds the bias. `x` is what is convolved.
at::Tensor convolved_lrelu(const at::Tensor& x,
                           const Equalised& layer,
                           const std::function<at::Tensor(const at::Tensor& weight)>& convolve);
// The same for a k x k convolution that keeps the picture's size.
at::Tensor conv_lrelu(const at::Tensor& x, const Equalised& layer);
// Returns leaky ReLU (negative slope .2) of x + bias; bias is [x.size(1)]. The output is not
// multiplied by sqrt 2.
at::Tensor lrelu(const at::Tensor& x, const at::Tensor& bias);

// Draws the weights of all Equalised layers in `network` from N(0, 1) / lr and sets their biases to
// 0. The values depend on the seed, `player` and the layers' names alone.
void initialise_equalised(torch::nn::Module& network, const std::string& player, uint64_t seed);

}  // namespace gantrain
