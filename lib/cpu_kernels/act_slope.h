// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "cpu_kernels/modulation.h"
#include "cpu_kernels/vector.h"

// The activation of ActPlanes, lane by lane, and its derivative.
namespace gantrain::GANTRAIN_ISA {

inline bool clamps(const ActPlanes& how) { return !std::isinf(how.clamp); }

// out as a function of u. What is not a number stays so.
template <bool kClamp>
struct ActOf {
  explicit ActOf(const ActPlanes& how)
      : positive(all(how.gain)), negative(all(how.gain * how.alpha)), most(all(how.clamp)) {}

  Vec operator()(Vec u) const {
    Vec t = u * (u > 0 ? positive : negative);
    if constexpr (kClamp) {
      t = t > most ? most : t;
      t = t < -most ? -most : t;
    }
    return t;
  }

  Vec positive, negative, most;
};

// c = d out / d u, from out.
enum class Slope { kConstant, kSigns, kClamped };

inline Slope slope_of(const ActPlanes& how, const float* out) {
  if (out == nullptr) return Slope::kConstant;
  return clamps(how) ? Slope::kClamped : Slope::kSigns;
}

template <Slope kSlope>
struct SlopeAt {
  explicit SlopeAt(const ActPlanes& how)
      : positive(all(how.gain)), negative(all(how.gain * how.alpha)), clamp(all(how.clamp)) {}

  template <class Access>
  Vec operator()(const float* out, int64_t i, Access access) const {
    if constexpr (kSlope == Slope::kConstant) return positive;
    const Vec t = access.get(out + i);
    Vec c = t > 0 ? positive : negative;
    // Equality is outside: a clamped value cannot be told from one just there.
    if constexpr (kSlope == Slope::kClamped) {
      c = t < clamp ? c : Vec{};
      c = t > -clamp ? c : Vec{};
    }
    return c;
  }

  Vec positive, negative, clamp;
};

}  // namespace gantrain::GANTRAIN_ISA
