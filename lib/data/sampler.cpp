// SPDX-License-Identifier: Apache-2.0
#include "data/sampler.h"

#include <stdexcept>

#include "core/random.h"

namespace gantrain {

Sampler::Sampler(int64_t size, uint64_t seed, bool mirror)
    : size_(size), seed_(seed), mirror_(mirror) {
  if (size < 1) throw std::invalid_argument("Sampler: no pictures");
}

int64_t Sampler::index(int64_t image) const {
  return (*order_of(image / size_))[static_cast<size_t>(image % size_)];
}

bool Sampler::flipped(int64_t image) const {
  return mirror_ && (Stream(seed_, "flip").bits(static_cast<uint64_t>(image), 0) & 1) != 0;
}

Sampler::Order Sampler::order_of(int64_t pass) const {
  const std::lock_guard lock(mutex_);
  Pass& kept = recent_[pass % 2];
  if (kept.number != pass) {
    const Stream stream(seed_, "data/order", static_cast<uint64_t>(pass));
    kept = {pass, std::make_shared<const std::vector<int64_t>>(stream.permutation(size_))};
  }
  return kept.order;
}

}  // namespace gantrain
