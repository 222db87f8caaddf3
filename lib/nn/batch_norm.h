// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <string>

namespace gantrain {

// Batch normalisation (Ioffe & Szegedy 2015) of [N, C, H, W] with torch's names, momentum .1 and
// eps 1e-5. In training mode it normalises by the batch and moves its running statistics, at once
// or, because a GAN runs networks that are not the ones being trained, when it is told to.
struct BatchNorm2d final : torch::nn::Module {
  // `block` is its name in the network, for the table of what blocks compute in.
  explicit BatchNorm2d(int64_t channels, std::string block = "");
  at::Tensor forward(const at::Tensor& x);
  // Moves the running statistics as the last forward with `tracks_later` would have, once.
  void track();

  bool tracks_later = false;
  // With it, "the batch" is that of all ranks: a differentiable sum over them of a tensor, and
  // their number; all have as many samples.
  std::function<at::Tensor(const at::Tensor&)> sum_over_ranks;
  int64_t ranks = 1;
  std::string block;
  at::Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 private:
  struct Statistics {
    at::Tensor mean, var;
  };
  void note_statistics(at::ScalarType of_input) const;
  // What a forward in training mode moves.
  Statistics moving();
  at::Tensor normalise_over_ranks(const at::Tensor& x);
  Statistics later_;  // undefined: nothing waits to be tracked
};

// BatchNorm2d::track() of all inside `network`.
void track(const torch::nn::Module& network);

// While it lives, no BatchNorm2d inside `network` moves its running statistics; the last forward's
// can be moved by track() later.
class TrackingLater {
 public:
  explicit TrackingLater(const torch::nn::Module& network);
  ~TrackingLater();
  TrackingLater(const TrackingLater&) = delete;
  TrackingLater& operator=(const TrackingLater&) = delete;

 private:
  const torch::nn::Module& network_;
};

}  // namespace gantrain
