// SPDX-License-Identifier: Apache-2.0
#include "nn/style/noise.h"

#include <string>

#include "core/torch.h"

namespace gantrain {

NoiseInputs stored_noise() { return nullptr; }

NoiseInputs no_noise() {
  return [](int64_t, const Size&) { return at::Tensor(); };
}

NoiseInputs drawn_noise(const DrawKey& key, const Samples& samples, const at::TensorOptions& like) {
  return [key, samples, like](int64_t layer, const Size& size) {
    return normal(key, "noise/" + std::to_string(layer), samples, {1, size.height, size.width})
        .to(like);
  };
}

}  // namespace gantrain
