// SPDX-License-Identifier: Apache-2.0
#include "gan/recipe.h"

#include <stdexcept>

namespace gantrain {

at::Tensor Generator::styles(const at::Tensor&, const at::Tensor&, const Drawing&) {
  throw std::logic_error("this generator has no latents of layers");
}

at::Tensor Generator::images_of_styles(const at::Tensor&, const Drawing&) {
  throw std::logic_error("this generator has no latents of layers");
}

}  // namespace gantrain
