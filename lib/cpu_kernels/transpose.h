// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "cpu_kernels/vector.h"

// Squares of vectors, and vectors of values that do not lie side by side.
namespace gantrain::GANTRAIN_ISA {

using LaneIndices = std::make_index_sequence<kLanes>;

// Exchanges, in the square of vectors, the blocks of Step lanes off the diagonal.
template <int64_t Step, size_t... Lane>
inline void exchange_blocks(Vec* r, std::index_sequence<Lane...> /*lanes*/) {
  for (int64_t i = 0; i < kLanes; ++i) {
    if ((i & Step) != 0) continue;
    const Vec low = r[i], high = r[i + Step];
    r[i] =
        __builtin_shufflevector(low, high, ((Lane & Step) == 0 ? Lane : kLanes + Lane - Step)...);
    r[i + Step] =
        __builtin_shufflevector(low, high, ((Lane & Step) == 0 ? Lane + Step : kLanes + Lane)...);
  }
}

// Transposes kLanes vectors.
inline void transpose(Vec* r) {
  exchange_blocks<1>(r, LaneIndices());
  exchange_blocks<2>(r, LaneIndices());
  if constexpr (kLanes > 4) exchange_blocks<4>(r, LaneIndices());
  if constexpr (kLanes > 8) exchange_blocks<8>(r, LaneIndices());
}

// Stores the lanes whose bits are set in `mask`, and touches nothing else.
inline void store_masked(float* to, Vec v, uint32_t mask) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>(mask), v);
#else
  for (int64_t i = 0; i < kLanes; ++i) {
    if (mask >> i & 1) to[i] = v[i];
  }
#endif
}

// `low` holds the values 0 to kLanes - 1, `high` those from kLanes - 1 on; returns every other one.
template <size_t... Lane>
inline Vec every_other(Vec low, Vec high, std::index_sequence<Lane...> /*lanes*/) {
  return __builtin_shufflevector(low, high, (2 * Lane < kLanes ? 2 * Lane : 2 * Lane + 1)...);
}

// Each value of one half of v twice.
template <size_t First, size_t... Lane>
inline Vec doubled(Vec v, std::index_sequence<Lane...> /*lanes*/) {
  return __builtin_shufflevector(v, v, (First + Lane / 2)...);
}

// Loads `count` values (1 to kLanes) that lie Step apart, 1 or 2. The lanes after them are zero,
// and no memory behind the last one is read.
template <int64_t Step>
inline Vec load_every(const float* from, int64_t count) {
  if constexpr (Step == 1) return count == kLanes ? load(from) : load_some(from, count);
  const int64_t floats = 2 * count - 1, behind = floats - (kLanes - 1);
  const Vec low = floats < kLanes ? load_some(from, floats) : load(from);
  const Vec high = behind > 1 ? load_some(from + kLanes - 1, behind) : Vec{};
  return every_other(low, high, LaneIndices());
}

// Stores the first `count` lanes (1 to kLanes) Step apart, and leaves what lies between.
template <int64_t Step>
inline void store_every(float* to, Vec v, int64_t count) {
  if constexpr (Step == 1) {
    if (count == kLanes) {
      store(to, v);
    } else {
      store_some(to, v, count);
    }
  } else {
    const uint64_t mask = 0x5555555555555555U & ((uint64_t{1} << (2 * count - 1)) - 1);
    store_masked(to, doubled<0>(v, LaneIndices()), static_cast<uint32_t>(mask));
    if (count > kLanes / 2)
      store_masked(to + kLanes,
                   doubled<kLanes / 2>(v, LaneIndices()),
                   static_cast<uint32_t>(mask >> kLanes));
  }
}

}  // namespace gantrain::GANTRAIN_ISA
