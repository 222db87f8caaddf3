// SPDX-License-Identifier: Apache-2.0
#include "augment/augment_draws.h"

namespace gantrain {

at::Tensor StreamDraws::uniform(const std::string& name, at::IntArrayRef shape) {
  return gantrain::uniform(key_, "augment/" + name, samples_, shape);
}

at::Tensor StreamDraws::normal(const std::string& name, at::IntArrayRef shape) {
  return gantrain::normal(key_, "augment/" + name, samples_, shape);
}

std::unique_ptr<AugmentDraws> StreamDraws::whole_batch() const {
  if (samples_.stride == 1) return nullptr;
  return std::make_unique<StreamDraws>(key_, Samples{0, 1, samples_.stride * samples_.count});
}

}  // namespace gantrain
