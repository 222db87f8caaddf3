// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "gan/model_json.h"
#include "gan/recipe_table.h"

namespace gantrain {

// The networks of a file that another program wrote: a network pickle, or safetensors with the
// official variables of the recipe that `recipe` names ("" where the file itself says what it has).
// The generator is built once, so that a tensor that is missing is named now and not when pictures
// are wanted. Throws UserError(kInput) naming the file and what does not fit.
ModelContent import_weights(const std::string& input,
                            const std::string& recipe,
                            const RecipeTable& recipes);

// "stylegan2 of 32 pixels, 3 channels, 0 classes: 5 tensors of the generator, 5 of G, 7 of D".
std::string describe_model(const ModelContent& model);

}  // namespace gantrain
