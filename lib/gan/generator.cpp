// SPDX-License-Identifier: Apache-2.0
#include "gan/generator.h"

#include <stdexcept>

#include "core/tensors.h"
#include "core/torch.h"
#include "util/error.h"

namespace gantrain {

at::Tensor Generator::map(const at::Tensor&, const at::Tensor&, const SynthesisOptions&) {
  throw std::logic_error("this generator has no latents of layers");
}

at::Tensor Generator::synthesize(const at::Tensor&, const SynthesisOptions&) {
  throw std::logic_error("this generator has no latents of layers");
}

void Generator::check_labels(const at::Tensor& labels) const {
  if (classes() > 0 && !labels.defined())
    fail(Exit::kUsage, "the network is conditional: one of its {} classes is needed", classes());
}

void Generator::load(const std::map<std::string, at::Tensor>& tensors, const std::string& source) {
  load_into(*network(), tensors, source);
}

at::Tensor full_size(const Generator& generator, const at::Tensor& pictures) {
  const std::vector<int64_t> levels = generator.levels();
  const int64_t times = levels.empty() ? 1 : levels.back() / pictures.size(3);
  if (times <= 1) return pictures;
  return pictures.repeat_interleave(times, 2).repeat_interleave(times, 3);
}

}  // namespace gantrain
