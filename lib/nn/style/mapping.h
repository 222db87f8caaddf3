// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "nn/style/layers.h"
#include "nn/style/shape.h"

namespace gantrain {

// z [N, z_dim], labels int64 [N] -> w [N, w_dim] (Karras et al. 2019, fig. 1b): both normalised,
// the class embedded, then dense layers with leaky ReLU. z is not looked at where z_dim is 0,
// labels not where c_dim is 0.
struct StyleMapping final : torch::nn::Module {
  explicit StyleMapping(const MappingShape& shape);
  at::Tensor forward(const at::Tensor& z, const at::Tensor& labels);

  MappingShape shape;
  // Running mean of w [w_dim], undefined without shape.has_w_avg. forward() never moves it, because
  // what counts is the mean over all ranks and micro-batches: nn/style/w_average.h.
  at::Tensor w_avg;
  std::shared_ptr<FullyConnected> embed;
  std::vector<std::shared_ptr<FullyConnected>> fc;
};

}  // namespace gantrain
