// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "core/torch.h"

namespace gantrain {

using Tensors = std::vector<at::Tensor>;
using TensorFunction = std::function<at::Tensor(const Tensors&)>;

// d sum(v * f(inputs)) by each input; zeros where f does not depend on it. Differentiable again.
inline Tensors gradients(const TensorFunction& f, const Tensors& inputs, const at::Tensor& v) {
  Tensors leaves;
  for (const at::Tensor& x : inputs) {
    leaves.push_back(x.requires_grad() ? x : x.detach().requires_grad_(true));
  }
  const at::Tensor y = f(leaves);
  Tensors found(leaves.size());
  if (y.requires_grad()) {
    found = torch::autograd::grad({y},
                                  leaves,
                                  {v},
                                  /*retain_graph=*/true,
                                  /*create_graph=*/true,
                                  /*allow_unused=*/true);
  }
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!found[i].defined()) found[i] = torch::zeros_like(leaves[i]);
  }
  return found;
}

// The largest difference, relative to the larger of the two (at least 1), between f's derivative
// and central differences of sum(v * f(inputs)) for a random v, along random directions of each
// input. inputs: float64, away from f's kinks by more than 1e-4.
inline double gradient_error(const TensorFunction& f, const Tensors& inputs) {
  constexpr double kStep = 1e-5;
  constexpr int kDirections = 3;
  const at::Tensor v = torch::randn_like(f(inputs).detach());
  const auto projection = [&](const Tensors& at_inputs) {
    return (f(at_inputs) * v).sum().item<double>();
  };
  const Tensors derivative = gradients(f, inputs, v);
  double worst = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (int k = 0; k < kDirections; ++k) {
      const at::Tensor direction = torch::randn_like(inputs[i]);
      const auto moved = [&](double step) {
        Tensors there = inputs;
        there[i] = inputs[i].detach() + step * direction;
        return projection(there);
      };
      // Five points: an error of kStep^4, so that a strongly curved f (a norm near 0) is no matter.
      const double near = moved(kStep) - moved(-kStep);
      const double far = moved(2 * kStep) - moved(-2 * kStep);
      const double difference = (8 * near - far) / (12 * kStep);
      const double slope = (derivative[i].detach() * direction).sum().item<double>();
      const double scale = std::max({1.0, std::abs(difference), std::abs(slope)});
      const double error = std::abs(difference - slope) / scale;
      worst = std::isfinite(error) ? std::max(worst, error) : error;
    }
  }
  return worst;
}

// The same for the second order: the gradients as a function of the inputs and of v.
inline double second_gradient_error(const TensorFunction& f, const Tensors& inputs) {
  Tensors all = inputs;
  all.push_back(torch::randn_like(f(inputs).detach()));
  const TensorFunction first = [&](const Tensors& with_v) {
    const Tensors arguments(with_v.begin(), with_v.end() - 1);
    Tensors flat;
    for (const at::Tensor& g : gradients(f, arguments, with_v.back())) flat.push_back(g.flatten());
    return torch::cat(flat);
  };
  return gradient_error(first, all);
}

constexpr double kGradientTolerance = 1e-7;

}  // namespace gantrain
