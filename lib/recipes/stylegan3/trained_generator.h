// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>

#include "gan/recipe.h"

namespace gantrain::stylegan3 {

// Makes a generator for a model file's tensors, in evaluation mode and float32 throughout; it has a
// MovableInput. `model` is the file's gantrain.model; where it is empty, the sizes are read off the
// tensors. load() accepts files without filters and transform, which it designs itself, and without
// w_avg (then the mean over drawn latents). Throws UserError(kInput) that names `source` and the
// key or the tensor that does not fit.
std::unique_ptr<gantrain::Generator> make_generator(
    const Json& model, const std::map<std::string, at::Tensor>& tensors, const std::string& source);

// Whether these look like a StyleGAN3 generator's tensors.
bool recognises(const std::map<std::string, at::Tensor>& tensors);

}  // namespace gantrain::stylegan3
