// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>

namespace gantrain {

// Batch normalisation (Ioffe & Szegedy 2015) of [N, C, H, W] with torch's names, momentum .1 and
// eps 1e-5. In training mode it normalises by the batch; whether it then also moves its running
// statistics is up to `tracking`, because a GAN runs networks that are not the ones being trained.
struct BatchNorm2d final : torch::nn::Module {
  explicit BatchNorm2d(int64_t channels);
  at::Tensor forward(const at::Tensor& x);

  bool tracking = true;
  // With it, "the batch" is that of all ranks: a differentiable sum over them of a tensor, and
  // their number; all have as many samples.
  std::function<at::Tensor(const at::Tensor&)> sum_over_ranks;
  int64_t ranks = 1;
  at::Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 private:
  at::Tensor normalise_over_ranks(const at::Tensor& x);
};

// While it lives, no BatchNorm2d inside `network` moves its running statistics.
class WithoutTracking {
 public:
  explicit WithoutTracking(const torch::nn::Module& network);
  ~WithoutTracking();
  WithoutTracking(const WithoutTracking&) = delete;
  WithoutTracking& operator=(const WithoutTracking&) = delete;

 private:
  const torch::nn::Module& network_;
};

}  // namespace gantrain
