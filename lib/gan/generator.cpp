// SPDX-License-Identifier: Apache-2.0
#include "gan/generator.h"

#include <stdexcept>

#include "core/tensors.h"

namespace gantrain {

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
