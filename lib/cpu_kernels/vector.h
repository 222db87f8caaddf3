// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

// Vectors of float32 of the instruction set that a source is compiled for: compilers' own vector
// types, whose operators work lane by lane.
namespace gantrain::GANTRAIN_ISA {

#if defined(__AVX512F__)
constexpr int64_t kLanes = 16;
#elif defined(__AVX2__)
constexpr int64_t kLanes = 8;
#else
constexpr int64_t kLanes = 4;
#endif

constexpr int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

using Vec = float __attribute__((vector_size(4 * kLanes)));
using IntVec = int32_t __attribute__((vector_size(4 * kLanes)));

inline Vec load(const float* from) {
  Vec v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

inline void store(float* to, Vec v) { std::memcpy(to, &v, sizeof v); }

// Subtracting zero leaves every number as it is, so that this is one broadcast.
inline Vec all(float value) { return value - Vec{}; }

// The first `count` lanes (0 to kLanes) of memory, and zeros after them; nothing behind is touched.
inline Vec load_some(const float* from, int64_t count) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << count) - 1), from);
#elif defined(__AVX2__)
  const IntVec mask = IntVec{0, 1, 2, 3, 4, 5, 6, 7} < static_cast<int32_t>(count);
  return _mm256_maskload_ps(from, reinterpret_cast<__m256i>(mask));
#else
  Vec v{};
  for (int64_t i = 0; i < count; ++i) v[i] = from[i];
  return v;
#endif
}

// Stores the first `count` lanes (0 to kLanes).
inline void store_some(float* to, Vec v, int64_t count) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1U << count) - 1), v);
#elif defined(__AVX2__)
  const IntVec mask = IntVec{0, 1, 2, 3, 4, 5, 6, 7} < static_cast<int32_t>(count);
  _mm256_maskstore_ps(to, reinterpret_cast<__m256i>(mask), v);
#else
  for (int64_t i = 0; i < count; ++i) to[i] = v[i];
#endif
}

// The same for any number of lanes that are left of an array, more than there are and none too.
inline Vec load_within(const float* from, int64_t left) {
  return left >= kLanes ? load(from) : left > 0 ? load_some(from, left) : Vec{};
}
inline void store_within(float* to, Vec v, int64_t left) {
  if (left >= kLanes) {
    store(to, v);
  } else if (left > 0) {
    store_some(to, v, left);
  }
}

}  // namespace gantrain::GANTRAIN_ISA
