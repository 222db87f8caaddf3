// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu_kernels/vector.h"

// Slopes of a leaky ReLU with a clamp, 2 bits a number.
namespace gantrain::GANTRAIN_ISA {

// The bits of a vector: first each lane's sign, then whether it was clamped.
constexpr int64_t kSlopeBytes = kLanes / 4;
#if defined(__AVX512F__)
using LaneBits = uint16_t;
#else
using LaneBits = uint8_t;
#endif

#if defined(__AVX512F__)
struct Mask {
  __mmask16 bits;
};
inline Mask mask_of(LaneBits bits) { return {static_cast<__mmask16>(bits)}; }
inline LaneBits bits_of(Mask m) { return static_cast<LaneBits>(m.bits); }
inline Mask at_most(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a, b, _CMP_LE_OQ)}; }
inline Vec times_where(Mask m, Vec v, Vec factor) {
  return _mm512_mask_mul_ps(v, m.bits, v, factor);
}
inline Vec zero_where(Mask m, Vec v) {
  return _mm512_maskz_mov_ps(static_cast<__mmask16>(~m.bits), v);
}
inline Vec magnitude(Vec v) { return _mm512_abs_ps(v); }
inline Vec smaller(Vec a, Vec b) { return _mm512_maskz_min_ps(0xffff, a, b); }
inline Vec larger(Vec a, Vec b) { return _mm512_maskz_max_ps(0xffff, a, b); }
#else
struct Mask {
  IntVec lanes;  // 0 or -1
};
inline IntVec lane_bits() {
#if defined(__AVX2__)
  return IntVec{1, 2, 4, 8, 16, 32, 64, 128};
#else
  return IntVec{1, 2, 4, 8};
#endif
}
inline Mask mask_of(LaneBits bits) {
  return {(lane_bits() & static_cast<int32_t>(bits)) == lane_bits()};
}
inline LaneBits bits_of(Mask m) {
#if defined(__AVX2__)
  return static_cast<LaneBits>(_mm256_movemask_ps(reinterpret_cast<__m256>(m.lanes)));
#else
  int32_t bits = 0;
  for (int64_t i = 0; i < kLanes; ++i) bits |= m.lanes[i] & (1 << i);
  return static_cast<LaneBits>(bits);
#endif
}
inline Mask at_most(Vec a, Vec b) { return {a <= b}; }
inline Vec times_where(Mask m, Vec v, Vec factor) { return m.lanes ? v * factor : v; }
inline Vec zero_where(Mask m, Vec v) { return m.lanes ? Vec{} : v; }
inline Vec magnitude(Vec v) {
  IntVec bits;
  std::memcpy(&bits, &v, sizeof v);
  bits &= 0x7fffffff;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}
// Where one of the two is not a number, the second.
#if defined(__AVX2__)
inline Vec smaller(Vec a, Vec b) { return _mm256_min_ps(a, b); }
inline Vec larger(Vec a, Vec b) { return _mm256_max_ps(a, b); }
#else
inline Vec smaller(Vec a, Vec b) { return a < b ? a : b; }
inline Vec larger(Vec a, Vec b) { return a > b ? a : b; }
#endif
#endif

struct Slopes {
  Mask low, clamped;
};

inline void store_slopes(uint8_t* to, const Slopes& s) {
  if constexpr (kLanes == 4) {
    *to = static_cast<uint8_t>(bits_of(s.low) | bits_of(s.clamped) << 4);
  } else {
    const LaneBits bits[2] = {bits_of(s.low), bits_of(s.clamped)};
    std::memcpy(to, bits, sizeof bits);
  }
}

inline Slopes load_slopes(const uint8_t* from) {
  if constexpr (kLanes == 4) {
    return {mask_of(*from & 15), mask_of(static_cast<LaneBits>(*from >> 4))};
  } else {
    LaneBits bits[2];
    std::memcpy(bits, from, sizeof bits);
    return {mask_of(bits[0]), mask_of(bits[1])};
  }
}

}  // namespace gantrain::GANTRAIN_ISA
