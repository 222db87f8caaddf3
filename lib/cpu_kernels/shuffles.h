// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "cpu_kernels/vector.h"

// Lanes in other places: of two vectors, of squares of vectors, and of values in memory that do not
// lie side by side.
namespace gantrain::GANTRAIN_ISA {

inline constexpr auto kAllLanes = std::make_index_sequence<kLanes>();

// Every second lane of two vectors put one after another, from lane First on.
template <int64_t First, size_t... Lane>
inline Vec every_second(Vec a, Vec b, std::index_sequence<Lane...> /*lanes*/) {
  return __builtin_shufflevector(a, b, (First + 2 * static_cast<int64_t>(Lane))...);
}

// Lanes from the one and from the other by turns, from lane First of each on.
template <int64_t First, size_t... Lane>
inline Vec by_turns(Vec a, Vec b, std::index_sequence<Lane...> /*lanes*/) {
  return __builtin_shufflevector(
      a, b, (First + static_cast<int64_t>(Lane) / 2 + static_cast<int64_t>(Lane) % 2 * kLanes)...);
}

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
  exchange_blocks<1>(r, kAllLanes);
  exchange_blocks<2>(r, kAllLanes);
  if constexpr (kLanes > 4) exchange_blocks<4>(r, kAllLanes);
  if constexpr (kLanes > 8) exchange_blocks<8>(r, kAllLanes);
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

// Loads `count` values (1 to kLanes) that lie Step apart, 1 or 2. The lanes after them are zero,
// and no memory behind the last one is read.
template <int64_t Step>
inline Vec load_every(const float* from, int64_t count) {
  if constexpr (Step == 1) return load_within(from, count);
  const int64_t floats = 2 * count - 1;
  return every_second<0>(
      load_within(from, floats), load_within(from + kLanes, floats - kLanes), kAllLanes);
}

// Stores the first `count` lanes (1 to kLanes) Step apart, and leaves what lies between.
template <int64_t Step>
inline void store_every(float* to, Vec v, int64_t count) {
  if constexpr (Step == 1) {
    store_within(to, v, count);
  } else {
    const uint64_t mask = 0x5555555555555555U & ((uint64_t{1} << (2 * count - 1)) - 1);
    store_masked(to, by_turns<0>(v, v, kAllLanes), static_cast<uint32_t>(mask));
    if (count > kLanes / 2)
      store_masked(to + kLanes,
                   by_turns<kLanes / 2>(v, v, kAllLanes),
                   static_cast<uint32_t>(mask >> kLanes));
  }
}

}  // namespace gantrain::GANTRAIN_ISA
