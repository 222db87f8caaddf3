// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/draws.h"

#include <torch/torch.h>

namespace gantrain::stylegan2 {

using at::Tensor;

NoiseInputs PhaseDraws::noise(const Batch& b, int64_t phase, const at::TensorOptions& like) const {
  NoiseInputs inputs;
  inputs.mode = NoiseMode::kRandom;
  const uint64_t seed = seed_;
  inputs.draw = [seed, samples = b.samples, iteration = b.iteration, phase, like](int64_t layer,
                                                                                  int64_t size) {
    const Stream draws(seed,
                       "noise/" + std::to_string(layer),
                       static_cast<uint64_t>(iteration),
                       static_cast<uint64_t>(phase));
    return normal(draws, samples, {1, size, size}).to(like);
  };
  return inputs;
}

Tensor PhaseDraws::picture_noise(const Batch& b, int64_t phase, at::IntArrayRef shape) const {
  return normal(stream("path", b.iteration, phase), b.samples, shape);
}

}  // namespace gantrain::stylegan2
