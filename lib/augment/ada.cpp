// SPDX-License-Identifier: Apache-2.0
#include "augment/ada.h"

#include "augment/augment.h"
#include "core/torch.h"
#include "util/error.h"

namespace gantrain {

using at::Tensor;

Ada::Ada(const AdaOptions& options, const AugmentOptions& transforms, const Pictures& pictures)
    : options_(options),
      transforms_(transforms),
      strength_(options.adaptive, pictures.batch, pictures.device) {
  if (options.mode != Augmentation::kNone)
    check_augment(transforms, pictures.resolution, pictures.channels);
  strength_.set(options.mode == Augmentation::kNone ? 0 : options.p.at(0));
  if (options.mode == Augmentation::kFixed && !options.p.is_constant()) {
    fixed_p_ = {[p = options.p](int64_t images_seen) { return p.at(images_seen); },
                at::TensorOptions().device(pictures.device).dtype(at::kDouble)};
  } else if (options.mode == Augmentation::kFixed) {
    fixed_p_ = options.p.at(0);
  }
}

Tensor Ada::operator()(const Tensor& x, const DrawKey& key, const Samples& samples) const {
  if (options_.mode == Augmentation::kNone) return x;
  StreamDraws draws(key, samples);
  return augment(x, p(), transforms_, draws);
}

void Ada::end_iteration(int64_t iteration) {
  if (options_.mode == Augmentation::kAda) strength_.end_iteration(iteration);
}

std::vector<std::string> Ada::warnings(const std::string& gamma) {
  const std::optional<double> p = strength_.crossed_warning();
  if (!p || options_.mode != Augmentation::kAda) return {};
  return {fmt::format(
      "augmentation p = {:.2f}: from here on it may leak into the pictures; D overfits: more data, "
      "or a larger {}",
      *p,
      gamma)};
}

NamedTensors Ada::state() const {
  NamedTensors all;
  for (const auto& [name, tensor] : strength_.state()) all.emplace_back("ada/" + name, tensor);
  return all;
}

}  // namespace gantrain
