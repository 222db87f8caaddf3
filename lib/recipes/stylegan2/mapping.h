// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <vector>

#include "recipes/stylegan2/layers.h"
#include "recipes/stylegan2/shape.h"

namespace gantrain::stylegan2 {

// z [N, z_dim], labels int64 [N] -> w [N, w_dim] (Karras et al. 2019, fig. 1b): both normalised,
// the class embedded, then dense layers with leaky ReLU. z is not looked at where z_dim is 0,
// labels not where c_dim is 0.
struct Mapping final : torch::nn::Module {
  explicit Mapping(const MappingShape& shape);
  at::Tensor forward(const at::Tensor& z, const at::Tensor& labels);

  // The running mean of w moves towards the mean [w_dim] of a batch's w, in place. forward() never
  // does it: what counts is the mean over all ranks and micro-batches.
  void move_w_avg(const at::Tensor& mean);

  // ws [N, num_ws, w_dim], of which the first `cutoff` layers (none: all) are moved towards w_avg
  // by psi (Karras et al. 2019, app. B).
  at::Tensor truncated(const at::Tensor& ws, double psi, std::optional<int64_t> cutoff) const;

  MappingShape shape;
  at::Tensor w_avg;  // [w_dim], undefined in D's
  std::shared_ptr<FullyConnected> embed;
  std::vector<std::shared_ptr<FullyConnected>> fc;
};

// w [N, w_dim] for every layer: [N, num_ws, w_dim].
at::Tensor for_all_layers(const at::Tensor& w, int64_t num_ws);

}  // namespace gantrain::stylegan2
