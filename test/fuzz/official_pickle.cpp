// SPDX-License-Identifier: Apache-2.0
// The network pickles of StyleGAN2-ADA, StyleGAN3, R3GAN and Projected GAN.
#include "exchange/import.h"
#include "fuzz/fuzz_input.h"
#include "recipes/projected/recipe.h"
#include "recipes/r3gan/recipe.h"
#include "recipes/stylegan2/recipe.h"
#include "recipes/stylegan3/recipe.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gantrain;
  static const RecipeTable recipes = {
      stylegan2::row(), stylegan3::row(), r3gan::row(), projected::row()};
  accepts("some file",
          [&] { (void)read_official_pickle(text_of_input(data, size), "some file", recipes); });
  return 0;
}
