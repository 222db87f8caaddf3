// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/recipe.h"

namespace gantrain {

// The smallest GAN: G is a matrix on z, D a matrix with tanh on pictures; no recipe of the program.
// Its row is named "toy"; its configuration is that of toy_config().
RecipeRow toy_row();

// All sections that the trainer reads, sized for a test: 8 pixels, batch 8, 0.08 kimg, SGD.
Config toy_config(const std::map<std::string, Json>& changes = {});

// Pictures of the toy recipe's size with values that follow `iteration`.
at::Tensor toy_pictures(int64_t count, int64_t iteration);

}  // namespace gantrain
