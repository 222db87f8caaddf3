// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "cpu_kernels/numbers.h"
#include "ops/adam/adam_cpu.h"
#include "ops/vector/cpu_kernels.h"
#include "support/catch.h"

using namespace gantrain;

namespace {

const UpdateKernels& kernels() { return cpu_kernels().update; }

struct AdamState {
  Numbers p, g, m, v;
  AdamArrays from(size_t begin) { return {&p[begin], &g[begin], &m[begin], &v[begin]}; }
};

AdamState random_state(size_t count) {
  AdamState s{normal_numbers(count, 1),
              normal_numbers(count, 2, 0, 1e-3F),
              normal_numbers(count, 3, 0, 1e-3F),
              normal_numbers(count, 4, 0, 1e-3F)};
  for (float& v : s.v) v *= v;
  return s;
}

constexpr size_t kCuts[] = {0, 1, 5, 16, 17, 31, 100, 257, 1003};

}  // namespace

TEST_CASE("AdamStaysWithinTwoRoundingsOfFloat64") {
  const size_t count = 1003;
  for (const double beta1 : {0.0, 0.5, 0.9}) {
    for (const double beta2 : {0.0, 0.99, 0.999, 0.99999}) {
      CAPTURE(beta1, beta2);
      AdamState s = random_state(count);
      const AdamState before = s;
      const AdamNumbers n{beta1, beta2, 0.01, 1e-9};
      kernels().adam(s.from(0), count, n);
      double worst_p = 0, worst_m = 0, worst_v = 0;
      for (size_t i = 0; i < count; ++i) {
        const double g = before.g[i], m0 = before.m[i], v0 = before.v[i];
        const double m = m0 + (1 - beta1) * (g - m0), v = v0 + (1 - beta2) * (g * g - v0);
        const double step = n.rate * m / (std::sqrt(v) + n.eps), p = before.p[i] - step;
        worst_p = std::max(worst_p, std::abs(s.p[i] - p) / (std::abs(p) + 4 * std::abs(step)));
        worst_m = std::max(worst_m, std::abs(s.m[i] - m) / (std::abs(g) + std::abs(m0)));
        worst_v = std::max(worst_v, std::abs(s.v[i] - v) / (g * g + v0));
      }
      constexpr double kRounding = 6e-8;
      CHECK(worst_p < 2 * kRounding);
      CHECK(worst_m < 2 * kRounding);
      CHECK(worst_v < 2 * kRounding);
    }
  }
}

TEST_CASE("ADecayOfZeroForgetsEverything") {
  AdamState s = random_state(35);
  kernels().adam(s.from(0), 35, {0, 0, 0.01, 1e-9});
  for (size_t i = 0; i < 35; ++i) {
    CHECK(s.m[i] == s.g[i]);
    CHECK(s.v[i] == s.g[i] * s.g[i]);
  }
}

TEST_CASE("UpdatesDoNotDependOnWhereARangeIsCut") {
  const size_t count = 1003;
  const AdamNumbers numbers{0.9, 0.999, 0.01, 1e-9};
  AdamState whole = random_state(count);
  kernels().adam(whole.from(0), count, numbers);
  Numbers average = normal_numbers(count, 5);
  const Numbers value = normal_numbers(count, 6);
  const Numbers before = average;
  kernels().lerp(average.data(), value.data(), count, 0.3);
  AdamState cut = random_state(count);
  Numbers cut_average = before;
  for (size_t i = 0; i + 1 < std::size(kCuts); ++i) {
    const size_t begin = kCuts[i];
    const auto length = static_cast<int64_t>(kCuts[i + 1] - begin);
    kernels().adam(cut.from(begin), length, numbers);
    kernels().lerp(&cut_average[begin], &value[begin], length, 0.3);
  }
  CHECK(cut.p == whole.p);
  CHECK(cut.m == whole.m);
  CHECK(cut.v == whole.v);
  CHECK(cut_average == average);
}

TEST_CASE("AWeightMovesTheAverageAndItsEndsAreExact") {
  const size_t count = 37;
  const Numbers from = normal_numbers(count, 7), to = normal_numbers(count, 8, 0, 1e6F);
  for (const double weight : {0.0, 1e-4, 0.3, 0.5, 0.9999, 1.0}) {
    CAPTURE(weight);
    Numbers average = from;
    kernels().lerp(average.data(), to.data(), count, weight);
    for (size_t i = 0; i < count; ++i) {
      const double a = from[i], b = to[i], expected = a + (b - a) * weight;
      const double size = std::abs(b - a) * std::min(weight, 1 - weight) + std::abs(expected);
      CHECK(std::abs(average[i] - expected) <= 1.3e-7 * size);
    }
    if (weight == 0) CHECK(average == from);
    if (weight == 1) CHECK(average == to);
  }
}

TEST_CASE("OneNumberThatIsNotFiniteIsFoundWhereverItStands") {
  constexpr float kLargest = std::numeric_limits<float>::max();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const int64_t count : {1, 15, 16, 17, 33, 70}) {
    Numbers numbers(static_cast<size_t>(count) + 1, -kLargest);
    numbers.back() = NAN;  // just behind the range
    CHECK(kernels().all_finite(numbers.data(), count));
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      for (const float bad : {NAN, -NAN, kInfinity, -kInfinity}) {
        numbers[i] = bad;
        CAPTURE(count, i, bad);
        CHECK_FALSE(kernels().all_finite(numbers.data(), count));
      }
      numbers[i] = 1e-45F;
    }
    CHECK(kernels().all_finite(numbers.data(), count));
  }
  CHECK(kernels().all_finite(nullptr, 0));
}

TEST_CASE("TheProcessorHasASetOfKernels") {
  CHECK(std::set<std::string>{"generic", "avx2", "avx512"}.count(cpu_kernels().name) == 1);
}
