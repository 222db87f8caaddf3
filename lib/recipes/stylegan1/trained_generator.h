// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "gan/recipe.h"
#include "recipes/stylegan1/networks.h"

namespace gantrain::stylegan1 {

// "gantrain.model" of a generator.
Json model_of(const Shape& shape);

// For a RecipeRow: sizes come from `model`, or are read off the tensors where it is empty. The
// weights are not loaded. Throws UserError(kInput) naming what does not fit.
std::unique_ptr<gantrain::Generator> make_generator(
    const Json& model, const std::map<std::string, at::Tensor>& tensors, const std::string& source);

// Whether these are a StyleGAN generator's tensors.
bool recognises(const std::map<std::string, at::Tensor>& tensors);

}  // namespace gantrain::stylegan1
