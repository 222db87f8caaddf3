// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <string>
#include <vector>

#include "core/tensors.h"

namespace gantrain {

// A layer that normalises by the statistics of a batch, which ranks may share.
struct SharesBatchStatistics {
  virtual ~SharesBatchStatistics() = default;
  // Returns a differentiable sum of a tensor over all ranks. Where it is set, statistics are taken
  // over the batches of all `ranks` ranks together, which must have equally many samples.
  std::function<at::Tensor(const at::Tensor&)> sum_over_ranks;
  int64_t ranks = 1;
};

// Running statistics of a layer, and what follows the normalisation; where `weight` and `bias` are
// undefined, nothing does.
struct BatchNormTensors {
  at::Tensor mean, var, weight, bias;
};

// Normalises x [N, C, H, W] as Ioffe & Szegedy 2015 do, momentum .1 and eps 1e-5: by the running
// statistics or, with `by_batch`, by the batch's own, towards which the running statistics then
// move: at once, or, inside a RunningStatisticsScope, in the copies that the scope collects
// (core/tensors.h). `layer` says whether ranks share their statistics.
at::Tensor batch_normalised(const at::Tensor& x,
                            const BatchNormTensors& tensors,
                            bool by_batch,
                            const SharesBatchStatistics& layer);

// Batch normalisation (Ioffe & Szegedy 2015) of [N, C, H, W] with torch's names, momentum .1 and
// eps 1e-5. In training mode it normalises by the batch's statistics and updates its running
// statistics: at once, or, inside a RunningStatisticsScope, in the copies that the scope collects
// (core/tensors.h).
struct BatchNorm2d final : torch::nn::Module, HasRunningStatistics, SharesBatchStatistics {
  // `block` is the layer's name in the network, which the table of compute types shows.
  explicit BatchNorm2d(int64_t channels, std::string block = "");
  at::Tensor forward(const at::Tensor& x);
  std::vector<std::string> running_statistics() const override;

  std::string block;
  at::Tensor weight, bias, running_mean, running_var, num_batches_tracked;
};

}  // namespace gantrain
