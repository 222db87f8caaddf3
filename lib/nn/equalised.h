// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace gantrain {

// He et al. 2015: for layers that a leaky ReLU follows; 1 for linear ones.
constexpr double kHeGain = 1.41421356237309504880;

// A layer's weight ~ N(0, 1) and bias 0 whose scale gain / sqrt(fan-in) is applied where they are
// used ("equalised learning rate", Karras et al. 2018a, sec. 4.1). `lr` is a factor of both as
// well, the weight being divided by it at the start: the layer then learns that much slower (2019,
// app. C).
struct Equalised final : torch::nn::Module {
  struct Shape {
    std::vector<int64_t> weight;  // [out, in] or [out, in, k, k]
    int64_t bias = 0;             // 0: none
    double gain = kHeGain;
    double lr = 1;
  };
  explicit Equalised(const Shape& shape);
  at::Tensor w() const;  // as used
  at::Tensor b() const;

  at::Tensor weight, bias;
  double scale, lr;
};

Equalised::Shape dense_shape(int64_t in, int64_t out, double gain = kHeGain, double lr = 1);
// k x k, with a bias.
Equalised::Shape conv_shape(int64_t in, int64_t out, int64_t k, double gain = kHeGain);

// W x + b of x [N, ...], flattened.
at::Tensor dense(const at::Tensor& x, const Equalised& layer);
// k x k convolution that keeps the size, without and with its bias.
at::Tensor conv_without_bias(const at::Tensor& x, const Equalised& layer);
at::Tensor conv(const at::Tensor& x, const Equalised& layer);
// Leaky ReLU of slope .2 of x + bias, bias [x.size(1)].
at::Tensor lrelu(const at::Tensor& x, const at::Tensor& bias);

// Weights of all equalised layers ~ N(0, 1) / lr, biases 0, from `seed` and the names alone.
void initialise_equalised(torch::nn::Module& network, const std::string& player, uint64_t seed);

}  // namespace gantrain
