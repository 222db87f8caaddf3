// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/UndefinedTensorImpl.h>

#include <optional>

#include "gan/recipe.h"

namespace gantrain {

// The smallest GAN: G is a matrix on z with a running mean, D a matrix with tanh on pictures; no
// recipe of the program. Its row is named "toy"; its configuration is that of toy_config(). Keys of
// its own:
//   toy.hands_over  D's phase hands its pictures over to G's, and statistics say what became of
//                   them: "Toy/recorded" (D's phase records G's graph) and "Toy/taken" (G's phase
//                   was given pictures), 0 or 1.
//   toy.promises    all its phases promise that all parameters take part.
//   toy.ignores_z   G begins with weights of zero, so that all its pictures are alike.
RecipeRow toy_row();

// All sections that the trainer reads, sized for a test: 8 pixels, batch 8, 0.08 kimg, SGD.
Config toy_config(const std::map<std::string, Json>& changes = {});

// Pictures of the toy recipe's size with values that follow `iteration`.
at::Tensor toy_pictures(int64_t count, int64_t iteration);

// What a test may see of the toy beside the recipe's interface.
class ToyRecipe : public Recipe {
 public:
  // The pictures that were last handed over; expired once nobody holds them.
  std::optional<c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>> handed_over;
};

}  // namespace gantrain
