// SPDX-License-Identifier: Apache-2.0
#include "core/random.h"

#include <numeric>

#include "core/philox.h"
#include "util/hash.h"

namespace gantrain {

Stream::Stream(uint64_t seed, std::string_view purpose, uint64_t iteration, uint64_t phase) {
  key_ = stream_key(hash64(purpose), seed, iteration, phase);
}

uint32_t Stream::bits(uint64_t sample, uint32_t element) const {
  return philox_block(key_, sample, element / 4)[element % 4];
}

double Stream::uniform(uint64_t sample, uint32_t element) const {
  return unit(bits(sample, element));
}

uint64_t Stream::below(uint64_t bound, uint64_t sample, uint32_t element) const {
  return whole_below(bound, philox_block(key_, sample, element));
}

void Stream::uniform(float* out, int64_t count, uint64_t sample) const {
  for (int64_t i = 0; i < count; i += 4) {
    const auto block = static_cast<uint32_t>(i / 4);
    fill_uniform(out + i, count - i, philox_block(key_, sample, block));
  }
}

void Stream::normal(float* out, int64_t count, uint64_t sample) const {
  for (int64_t i = 0; i < count; i += 4) {
    const auto block = static_cast<uint32_t>(i / 4);
    fill_normal(out + i, count - i, philox_block(key_, sample, block));
  }
}

std::vector<int64_t> Stream::permutation(int64_t count) const {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = count - 1; i > 0; --i) {
    const auto j =
        static_cast<int64_t>(below(static_cast<uint64_t>(i) + 1, static_cast<uint64_t>(i)));
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(j)]);
  }
  return order;
}

}  // namespace gantrain
