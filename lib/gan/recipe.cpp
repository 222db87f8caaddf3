// SPDX-License-Identifier: Apache-2.0
#include "gan/recipe.h"

namespace gantrain {

const Schedule& Recipe::schedule() const {
  static const Schedule one_stage;
  return one_stage;
}

TensorNames Recipe::names_in(const std::map<std::string, at::Tensor>&, const Player&) const {
  return [](const std::string& name) { return NameInFile(name); };
}

}  // namespace gantrain
