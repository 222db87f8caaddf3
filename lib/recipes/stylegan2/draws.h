// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/phase_draws.h"
#include "recipes/stylegan2/generator.h"

namespace gantrain::stylegan2 {

// Those that StyleGAN2 alone has.
class PhaseDraws final : public gantrain::PhaseDraws {
 public:
  using gantrain::PhaseDraws::PhaseDraws;

  // Noise inputs N(0, 1) of each layer and sample, in the given type and on its device.
  NoiseInputs noise(const Batch& b, int64_t phase, const at::TensorOptions& like) const;
  // The direction y of a path length, [N, shape...] float32, CPU.
  at::Tensor picture_noise(const Batch& b, int64_t phase, at::IntArrayRef shape) const;
};

}  // namespace gantrain::stylegan2
