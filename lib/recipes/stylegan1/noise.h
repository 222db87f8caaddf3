// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "core/tensors.h"

namespace gantrain::stylegan1 {

// What is added in layer `layer`, whose pictures are side x side: [N or 1, 1, side, side], or
// undefined for nothing.
using Noise = std::function<at::Tensor(int64_t layer, int64_t side)>;

// Whose draws they are (decisions on streams: one per layer, keyed by iteration, phase and sample).
struct NoiseKey {
  uint64_t seed = 0;
  uint64_t iteration = 0;
  uint64_t phase = 0;
  Samples samples;
};

Noise no_noise();
// N(0, 1) for each sample; of the type and device of `like`.
Noise drawn_noise(const NoiseKey& key, const at::Tensor& like);

}  // namespace gantrain::stylegan1
