// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "gan/recipe.h"
#include "recipes/pggan/networks.h"

namespace gantrain::pggan {

// Returns the "gantrain.model" of a generator.
Json model_of(const Shape& shape);

// Makes a generator for RecipeRow::make_generator. Its sizes come from `model`; where that is
// empty, they are read off the tensors. The weights are not loaded. Throws UserError(kInput) that
// names what does not fit.
std::unique_ptr<gantrain::Generator> make_generator(
    const Json& model, const std::map<std::string, at::Tensor>& tensors, const std::string& source);

// Whether these are a PGGAN generator's tensors.
bool recognises(const std::map<std::string, at::Tensor>& tensors);

}  // namespace gantrain::pggan
