// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu_kernels/vector.h"

// Elementary functions of vectors. Each is within 2 units in the last place of the true value; NaN
// gives NaN.
namespace gantrain::GANTRAIN_ISA {

inline Vec magnitude(Vec x) {
  return reinterpret_cast<Vec>(reinterpret_cast<IntVec>(x) & 0x7fffffff);
}

// x = n * ln 2 + r with |r| <= ln 2 / 2 (Cody and Waite 1980, ch. 6).
struct Reduced {
  IntVec n;
  Vec r;
};
inline Reduced reduced(Vec x) {
  // Adding 1.5 * 2^23 rounds to a whole number, which is then in the low bits.
  const Vec magic = all(12582912.F);
  const Vec shifted = x * 1.44269504F + magic;
  const Vec n = shifted - magic;
  // The high part of ln 2 has so few bits that its product with n is exact.
  const Vec r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  return {reinterpret_cast<IntVec>(shifted) - reinterpret_cast<IntVec>(magic), r};
}

inline Vec power_of_two(IntVec n) { return reinterpret_cast<Vec>((n + 127) << 23); }

// e^r - 1 for |r| <= ln 2 / 2: r + r^2 * q(r), q a minimax polynomial.
inline Vec expm1_near_zero(Vec r) {
  Vec q = all(1.9875691500e-4F);
  q = q * r + 1.3981999507e-3F;
  q = q * r + 8.3334519073e-3F;
  q = q * r + 4.1665795894e-2F;
  q = q * r + 1.6666665459e-1F;
  q = q * r + 5.0000001201e-1F;
  return q * (r * r) + r;
}

inline Vec exp(Vec x) {
  // Beyond these the result is 0 or infinity. They leave NaN as it is.
  x = x > all(89.F) ? all(89.F) : x;
  x = x < all(-104.F) ? all(-104.F) : x;
  const Reduced at = reduced(x);
  // In two steps, as 2^n alone may be too large or too small for a normal number.
  const IntVec half = at.n >> 1;
  return (expm1_near_zero(at.r) + 1.F) * power_of_two(half) * power_of_two(at.n - half);
}

// e^x - 1 for x <= 0.
inline Vec expm1_of_negative(Vec x) {
  const Vec least = all(-30.F);  // -1 already
  const Reduced at = reduced(x < least ? least : x);
  const Vec scale = power_of_two(at.n);
  return expm1_near_zero(at.r) * scale + (scale - 1.F);
}

// log(1 + x) for 0 <= x <= 1: 2 artanh(s) with s = x / (2 + x) <= 1/3.
inline Vec log1p_of_small(Vec x) {
  const Vec s = x / (x + 2.F), z = s * s;
  Vec q = all(2.F / 15);
  q = q * z + 2.F / 13;
  q = q * z + 2.F / 11;
  q = q * z + 2.F / 9;
  q = q * z + 2.F / 7;
  q = q * z + 2.F / 5;
  q = q * z + 2.F / 3;
  return q * (z * s) + (s + s);
}

inline Vec sigmoid(Vec x) { return 1.F / (1.F + exp(-x)); }

inline Vec tanh(Vec x) {
  const Vec a = magnitude(x), z = x * x;
  Vec q = all(-5.70498872745e-3F);
  q = q * z + 2.06390887954e-2F;
  q = q * z - 5.37397155531e-2F;
  q = q * z + 1.33314422036e-1F;
  q = q * z - 3.33332819422e-1F;
  const Vec near = q * (z * x) + x;
  const Vec far = 1.F - 2.F / (exp(a + a) + 1.F);
  const Vec small = all(0.625F);
  return a < small ? near : (x < Vec{} ? -far : far);
}

}  // namespace gantrain::GANTRAIN_ISA
