// SPDX-License-Identifier: Apache-2.0
// Optimizers' steps. Each kernel is one function of whole vectors. The rest of a range, shorter
// than a vector, is copied into a vector of its own and given to that same function: a scalar loop
// of the same formula could be rounded in other places, and results would depend on where a range
// is cut.
#include "ops/adam/adam_cpu.h"

#include "ops/vector/vector.h"

namespace gantrain::GANTRAIN_ISA {

namespace {

// Of two numbers a and b, a + (b - a) * weight. Beginning at the nearer one loses nothing where the
// weight is near 0 or 1.
struct Mix {
  explicit Mix(double weight)
      : from_b(weight >= 0.5), factor(static_cast<float>(from_b ? weight - 1 : weight)) {}
  Vec operator()(Vec a, Vec b) const { return (from_b ? b : a) + (b - a) * factor; }
  bool from_b;
  float factor;
};

// 1 in lanes of numbers that are not finite: their exponent is all ones.
inline IntVec not_finite(const float* numbers) {
  IntVec bits;
  std::memcpy(&bits, numbers, sizeof bits);
  constexpr int32_t kExponent = 0x7f800000;
  return (bits & kExponent) == kExponent;
}

[[gnu::noipa]] bool vectors_are_finite(const float* numbers, int64_t vectors) {
  IntVec found0 = {}, found1 = {};
  int64_t i = 0;
  for (; i + 2 <= vectors; i += 2) {
    found0 |= not_finite(numbers + i * kLanes);
    found1 |= not_finite(numbers + (i + 1) * kLanes);
  }
  if (i < vectors) found0 |= not_finite(numbers + i * kLanes);
  found0 |= found1;
  int32_t any = 0;
  for (int64_t lane = 0; lane < kLanes; ++lane) any |= found0[lane];
  return any == 0;
}

bool all_finite(const float* numbers, int64_t count) {
  const int64_t vectors = count / kLanes, rest = count % kLanes;
  if (!vectors_are_finite(numbers, vectors)) return false;
  if (rest == 0) return true;
  float last[kLanes] = {};
  std::memcpy(last, numbers + vectors * kLanes, sizeof(float) * static_cast<size_t>(rest));
  return vectors_are_finite(last, 1);
}

[[gnu::noipa]] void adam_vectors(const AdamArrays& at, int64_t vectors, const AdamNumbers& n) {
  const Mix first(1 - n.beta1), second(1 - n.beta2);
  const auto rate = static_cast<float>(n.rate), eps = static_cast<float>(n.eps);
  for (int64_t i = 0; i < vectors * kLanes; i += kLanes) {
    const Vec g = load(at.gradient + i);
    const Vec m = first(load(at.first_moment + i), g);
    const Vec v = second(load(at.second_moment + i), g * g);
    store(at.first_moment + i, m);
    store(at.second_moment + i, v);
    store(at.parameter + i, load(at.parameter + i) - rate * (m / (square_root(v) + eps)));
  }
}

void adam(const AdamArrays& at, int64_t count, const AdamNumbers& numbers) {
  const int64_t whole = count / kLanes * kLanes, rest = count - whole;
  adam_vectors(at, whole / kLanes, numbers);
  if (rest == 0) return;
  const auto bytes = sizeof(float) * static_cast<size_t>(rest);
  float p[kLanes] = {}, g[kLanes] = {}, m[kLanes] = {}, v[kLanes] = {};
  std::memcpy(p, at.parameter + whole, bytes);
  std::memcpy(g, at.gradient + whole, bytes);
  std::memcpy(m, at.first_moment + whole, bytes);
  std::memcpy(v, at.second_moment + whole, bytes);
  adam_vectors({p, g, m, v}, 1, numbers);
  std::memcpy(at.parameter + whole, p, bytes);
  std::memcpy(at.first_moment + whole, m, bytes);
  std::memcpy(at.second_moment + whole, v, bytes);
}

[[gnu::noipa]] void lerp_vectors(float* average, const float* value, int64_t vectors, Mix mix) {
  for (int64_t i = 0; i < vectors * kLanes; i += kLanes)
    store(average + i, mix(load(average + i), load(value + i)));
}

void lerp(float* average, const float* value, int64_t count, double weight) {
  const int64_t whole = count / kLanes * kLanes, rest = count - whole;
  const Mix mix(weight);
  lerp_vectors(average, value, whole / kLanes, mix);
  if (rest == 0) return;
  const auto bytes = sizeof(float) * static_cast<size_t>(rest);
  float a[kLanes] = {}, b[kLanes] = {};
  std::memcpy(a, average + whole, bytes);
  std::memcpy(b, value + whole, bytes);
  lerp_vectors(a, b, 1, mix);
  std::memcpy(average + whole, a, bytes);
}

}  // namespace

UpdateKernels update_kernels() { return {&all_finite, &adam, &lerp}; }

}  // namespace gantrain::GANTRAIN_ISA
