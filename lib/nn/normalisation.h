// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
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

// A weight that is divided by its largest singular value sigma, with the bias of its layer (Miyato
// et al. 2018, arXiv:1802.05957, sec. 3). Names are torch's: "weight_orig", "weight_u", "weight_v",
// "bias".
//
// sigma is u . (M v), M being the weight with the axis of its outputs first and all others in one,
// and u, v estimates of M's first singular vectors. In training mode each call of normalised()
// first makes one step of the power iteration, with gradients or without; u and v are running
// statistics (core/tensors.h). Gradients flow through M and not through u and v.
struct SpectralWeight final : torch::nn::Module, HasRunningStatistics {
  struct Config {
    std::vector<int64_t> shape;
    int64_t bias = 0;         // its length; 0: none
    int64_t output_axis = 0;  // of the weight; 1 in transposed convolutions
  };
  explicit SpectralWeight(const Config& config);

  // Returns weight_orig / sigma, in the type of the weight.
  at::Tensor normalised();
  // Draws the weight and the bias from +-1 / sqrt(fan-in), torch's default of a layer (fan-in: all
  // axes of the weight but its first), each tensor from a stream of its own, and takes 15 steps of
  // the power iteration from a drawn u: with drawn vectors alone sigma may be almost 0 until the
  // first call in training mode.
  void initialise(uint64_t seed, const std::string& name);
  std::vector<std::string> running_statistics() const override { return {"weight_u", "weight_v"}; }

  at::Tensor bias, weight_orig, weight_u, weight_v;

 private:
  at::Tensor matrix() const;
  int64_t output_axis_;
};

// Draws the weights of all these layers in a network.
void initialise_spectral_weights(torch::nn::Module& network,
                                 const std::string& player,
                                 uint64_t seed);

}  // namespace gantrain
