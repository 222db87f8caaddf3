// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <string>
#include <vector>

#include "core/tensors.h"

namespace gantrain {

// Batch normalisation (Ioffe & Szegedy 2015) of [N, C, H, W] with torch's names, momentum .1 and
// eps 1e-5. In training mode it normalises by the batch's statistics and updates its running
// statistics: at once, or, inside a RunningStatisticsScope, in the copies that the scope collects
// (core/tensors.h).
struct BatchNorm2d final : torch::nn::Module, HasRunningStatistics {
  // `block` is the layer's name in the network, which the table of compute types shows.
  explicit BatchNorm2d(int64_t channels, std::string block = "");
  at::Tensor forward(const at::Tensor& x);
  std::vector<std::string> running_statistics() const override;

  // Returns a differentiable sum of a tensor over all ranks. Where it is set, statistics are taken
  // over the batches of all `ranks` ranks together, which must have equally many samples.
  std::function<at::Tensor(const at::Tensor&)> sum_over_ranks;
  int64_t ranks = 1;
  std::string block;
  at::Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 private:
  struct Statistics {
    at::Tensor mean, var;
  };
  void note_statistics(at::ScalarType of_input) const;
  // Returns the running statistics that a forward pass in training mode updates; it has counted the
  // batch already.
  Statistics moving();
  at::Tensor normalise_over_ranks(const at::Tensor& x);
};

}  // namespace gantrain
