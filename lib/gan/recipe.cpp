// SPDX-License-Identifier: Apache-2.0
#include "gan/recipe.h"

#include <stdexcept>

namespace gantrain {

const Schedule& Recipe::schedule() const {
  static const Schedule one_stage;
  return one_stage;
}

TensorNames Recipe::names_in(const std::map<std::string, at::Tensor>&) const {
  return [](const std::string& name) { return name; };
}

at::Tensor Generator::map(const at::Tensor&, const at::Tensor&, const SynthesisOptions&) {
  throw std::logic_error("this generator has no latents of layers");
}

at::Tensor Generator::synthesize(const at::Tensor&, const SynthesisOptions&) {
  throw std::logic_error("this generator has no latents of layers");
}

void Generator::load(const std::map<std::string, at::Tensor>& tensors, const std::string& source) {
  load_into(*network(), tensors, source);
}

}  // namespace gantrain
