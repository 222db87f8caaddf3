// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensors.h"

namespace gantrain {

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

// Draws numbers that are uniform in +-bound, of the tensor's shape, by the seed and the purpose
// alone.
at::Tensor uniform_like(const at::Tensor& tensor,
                        double bound,
                        uint64_t seed,
                        const std::string& purpose);

}  // namespace gantrain
