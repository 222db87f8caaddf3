// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/penalties.h"

#include <torch/torch.h>

#include <cmath>

namespace gantrain::stylegan2 {

using at::Tensor;

namespace {
Tensor gradient_of(const Tensor& sum, const Tensor& x) {
  return torch::autograd::grad({sum}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
}
}  // namespace

Tensor squared_gradient(const Tensor& scores, const Tensor& x) {
  return gradient_of(scores.sum(), x).square().sum({1, 2, 3});
}

Tensor path_lengths(const Tensor& pictures, const Tensor& ws, const Tensor& y) {
  const double pixels = static_cast<double>(pictures.size(2) * pictures.size(3));
  const Tensor g = gradient_of((pictures * (y / std::sqrt(pixels))).sum(), ws);
  return g.square().sum(2).mean(1).sqrt();
}

}  // namespace gantrain::stylegan2
