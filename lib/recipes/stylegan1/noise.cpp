// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan1/noise.h"

#include <fmt/format.h>
#include <torch/torch.h>

namespace gantrain::stylegan1 {

Noise no_noise() {
  return [](int64_t, int64_t) { return at::Tensor(); };
}

Noise drawn_noise(const NoiseKey& key, const at::Tensor& like) {
  return [key, options = like.options()](int64_t layer, int64_t side) {
    const Stream stream(key.seed, fmt::format("noise/{}", layer), key.iteration, key.phase);
    return normal(stream, key.samples, {1, side, side}).to(options);
  };
}

}  // namespace gantrain::stylegan1
