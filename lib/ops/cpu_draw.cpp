// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/parallel.h"
#include "core/philox.h"
#include "core/torch.h"
#include "ops/device_kernels.h"

namespace gantrain {

using at::Tensor;

namespace {

void fill_bits(int64_t* out, int64_t count, const PhiloxBlock& block) {
  for (int64_t j = 0; j < count && j < 4; ++j) out[j] = block[static_cast<size_t>(j)];
}

// Calls fill(at, room, block) for each block of each sample; `at` is where the block's first number
// goes, in an output of samples.count x how.each. Each block is a function of its place, so neither
// the number of threads nor their order changes a bit.
template <class Fill>
void each_block(const DrawNumbers& how, Fill&& fill) {
  constexpr int64_t kGrain = 512;  // blocks that a thread is worth: about 50 us of normals
  const auto* numbers = how.key.const_data_ptr<int64_t>();
  const uint64_t key = stream_key(how.purpose,
                                  static_cast<uint64_t>(numbers[0]),
                                  static_cast<uint64_t>(numbers[1]),
                                  static_cast<uint64_t>(how.phase));
  const int64_t blocks = (how.each + 3) / 4;
  parallel_for(0, how.samples.count * blocks, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      const int64_t row = i / blocks;
      const auto sample = static_cast<uint64_t>(how.samples.first + row * how.samples.stride);
      for (const int64_t stop = std::min(end, (row + 1) * blocks); i < stop; ++i) {
        const int64_t block = i - row * blocks;
        fill(row * how.each + 4 * block,
             how.each - 4 * block,
             philox_block(key, sample, static_cast<uint32_t>(block)));
      }
    }
  });
}

}  // namespace

Tensor cpu_draw(const DrawNumbers& how) {
  const bool whole = how.distribution == Distribution::kBits;
  Tensor out = at::empty({how.samples.count, how.each}, whole ? at::kLong : at::kFloat);
  if (whole) {
    auto* data = out.mutable_data_ptr<int64_t>();
    each_block(how, [&](int64_t at, int64_t room, const PhiloxBlock& block) {
      fill_bits(data + at, room, block);
    });
    return out;
  }
  auto* data = out.mutable_data_ptr<float>();
  const bool normal = how.distribution == Distribution::kNormal;
  each_block(how, [&](int64_t at, int64_t room, const PhiloxBlock& block) {
    if (normal)
      fill_normal(data + at, room, block);
    else
      fill_uniform(data + at, room, block);
  });
  return out;
}

}  // namespace gantrain
