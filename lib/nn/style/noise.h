// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "ops/draws.h"
#include "util/size.h"

namespace gantrain {

// The noise inputs of a synthesis network (Karras et al. 2019, sec. 3.2). Called with a layer and
// the size of its pictures, the function returns the noise that the layer adds, before the layer
// multiplies it by its own strength: N(0, 1), on any device, [N, 1, H, W], or [1, 1, H, W] or
// [H, W] for all samples; undefined where nothing is to be added. Layers with noise are counted
// from 0 in the first block, and the count is also the index of their w. An empty function stands
// for the noise that is part of the model.
using NoiseInputs = std::function<at::Tensor(int64_t layer, const Size& size)>;

// The constant noise that each layer has stored as a buffer.
NoiseInputs stored_noise();
// No layer adds anything.
NoiseInputs no_noise();
// N(0, 1) for each sample of a batch, in the type and on the device of `like`. A layer's noise
// depends on the key, the layer and the global sample alone.
NoiseInputs drawn_noise(const DrawKey& key, const Samples& samples, const at::TensorOptions& like);

}  // namespace gantrain
