// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "gan/model_json.h"
#include "gan/recipe.h"

namespace gantrain {

// The networks, of those of `recipes` that pickles hold, of a snapshot of StyleGAN2-ADA (PyTorch),
// of StyleGAN2 or StyleGAN3 in StyleGAN3's repository, or of R3GAN: a pickle of a dict whose G_ema,
// G and D are classes with their state. Nothing of it is executed, the Python source that lies in
// it is not used. G and D may be missing. Throws UserError(kInput) naming `source` and the key,
// module or tensor: other classes, architectures that gantrain does not have, anything the pickle
// machine refuses.
ModelContent read_official_pickle(std::string_view content,
                                  const std::string& source,
                                  const RecipeTable& recipes);

}  // namespace gantrain
