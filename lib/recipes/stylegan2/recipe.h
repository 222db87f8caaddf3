// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>

#include "gan/recipe.h"

namespace gantrain::stylegan2 {

// Makes a generator for a model file's tensors, in evaluation mode and float32 throughout. `model`
// is the file's gantrain.model; where it is empty, the sizes are read off the tensors. load()
// accepts files without these buffers and makes them itself: resampling filters ([1, 3, 3, 1]),
// constant noise (drawn from a fixed stream), noise strengths (0), w_avg (the mean over drawn
// latents). Random noise is drawn once for each pair (SynthesisOptions::noise_seed, layer) and
// shared by the pictures of a call, so a picture depends on its w and the seed alone. Throws
// UserError(kInput) that names `source` and the key or the tensor that does not fit.
std::unique_ptr<gantrain::Generator> make_generator(
    const Json& model, const std::map<std::string, at::Tensor>& tensors, const std::string& source);

// Whether these look like a StyleGAN2 generator's tensors.
bool recognises(const std::map<std::string, at::Tensor>& tensors);

// The row of StyleGAN2 (Karras et al. 2020a) with adaptive discriminator augmentation (2020b) for
// the table of recipes. An iteration has the phases Gmain, Greg (path length), Dmain, Dreg (R1).
RecipeRow row();

}  // namespace gantrain::stylegan2
