// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ops/bias_act/bias_act_cpu.h"
#include "ops/vector/cpu_kernels.h"
#include "support/catch.h"

using namespace gantrain;

namespace {

constexpr float kNone = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Those that have kernels.
const std::vector<Activation> kTwoLines = {
    Activation::kLinear, Activation::kRelu, Activation::kLrelu};

double lower_slope(Activation act) {
  return act == Activation::kLinear ? 1 : act == Activation::kRelu ? 0 : 0.25;
}
double value(Activation act, double u) { return u > 0 ? u : lower_slope(act) * u; }
double slope(Activation act, double t) { return t > 0 ? 1 : lower_slope(act); }

struct Arrays {
  BiasActTask task;
  std::vector<float> b;      // one number for each channel, as the kernels take them
  std::vector<double> b_of;  // for each place
};

class Random {
 public:
  std::vector<float> numbers(int64_t count, float scale) {
    std::vector<float> all(count);
    for (float& x : all) x = std::normal_distribution<float>(0, scale)(engine_);
    return all;
  }
  Arrays arrays(Activation act, int64_t outer, int64_t channels, int64_t inner) {
    Arrays a{{act, 0.25F, 1.5F, kNone, outer, channels, inner}, numbers(channels, 1), {}};
    for (int64_t i = 0; i < outer * channels * inner; ++i) {
      a.b_of.push_back(a.b[i / inner % channels]);
    }
    if (inner == 1) {
      const int64_t columns = bias_act_units(a.task).columns;
      for (int64_t i = channels; i < columns; ++i) a.b.push_back(a.b[i - channels]);
    }
    return a;
  }

 private:
  std::mt19937 engine_{12};
};

// Calls body(kernels, random, arrays) for every set, activation and kind of shape.
template <class Body>
void for_all(const Body& body) {
  struct Shape {
    int64_t outer, channels, inner;
  };
  Random random;
  for (const CpuKernels* set : available_cpu_kernels()) {
    for (const Activation act : kTwoLines) {
      for (const Shape& s : {Shape{2, 3, 35},
                             Shape{1, 1, 1},
                             Shape{3, 5, 16},
                             Shape{1, 2, 9001},
                             Shape{700, 3, 1},
                             Shape{5, 100, 1},
                             Shape{3, 40000, 1}}) {
        CAPTURE(set->name, static_cast<int>(act), s.outer, s.channels, s.inner);
        body(*set, random, random.arrays(act, s.outer, s.channels, s.inner));
      }
    }
  }
}

// |a - b| in units of b's last place as a float32.
double places(float a, double b) {
  const double unit = std::ldexp(1.0, std::max(std::ilogb(b), -126) - 23);
  return std::abs(a - b) / unit;
}

}  // namespace

TEST_CASE("EverySetComputesActivationsToAFewLastPlaces") {
  for_all([](const CpuKernels& kernels, Random& random, const Arrays& a) {
    const auto total = static_cast<int64_t>(a.b_of.size());
    const std::vector<float> x = random.numbers(total, 4);
    std::vector<float> y(total + 16, 777.F);
    kernels.bias_act.forward(
        a.task, x.data(), a.b.data(), y.data(), 0, bias_act_units(a.task).count);
    double worst = 0;
    for (int64_t i = 0; i < total; ++i) {
      const float u = x[i] + static_cast<float>(a.b_of[i]);
      worst = std::max(worst, places(y[i], value(a.task.act, u) * 1.5));
    }
    CHECK(worst < 5);
    CHECK(std::count(y.begin() + total, y.end(), 777.F) == 16);
  });
}

TEST_CASE("DerivativesAndTheirSumsAreExactToRounding") {
  for_all([](const CpuKernels& kernels, Random& random, const Arrays& a) {
    const auto total = static_cast<int64_t>(a.b_of.size());
    const BiasActUnits units = bias_act_units(a.task);
    const std::vector<float> x = random.numbers(total, 2), dy = random.numbers(total, 1);
    std::vector<float> y(total), dx(total), sums(units.count * units.columns);
    kernels.bias_act.forward(a.task, x.data(), a.b.data(), y.data(), 0, units.count);
    kernels.bias_act.gradient(a.task, dy.data(), y.data(), dx.data(), sums.data(), 0, units.count);
    double worst = 0, sum = 0, absolute = 0, sum_of_units = 0;
    for (int64_t i = 0; i < total; ++i) {
      const double want = dy[i] * slope(a.task.act, static_cast<double>(y[i])) * 1.5;
      worst = std::max(worst, std::abs(dx[i] - want) / std::abs(dy[i] * 1.5));
      sum += dx[i];
      absolute += std::abs(dx[i]);
    }
    for (const float s : sums) sum_of_units += s;
    CHECK(worst < 1e-6);
    CHECK(std::abs(sum_of_units - sum) <= 1e-6 * absolute);
  });
}

TEST_CASE("NoCutChangesABit") {
  for_all([](const CpuKernels& kernels, Random& random, const Arrays& a) {
    const auto total = static_cast<int64_t>(a.b_of.size());
    const BiasActUnits units = bias_act_units(a.task);
    const std::vector<float> x = random.numbers(total, 2), dy = random.numbers(total, 1);
    const auto run = [&](int64_t cut) {
      std::vector<float> all(total), dx(total), sums(units.count * units.columns);
      for (const auto& [first, last] : {std::pair<int64_t, int64_t>{0, cut}, {cut, units.count}}) {
        kernels.bias_act.forward(a.task, x.data(), a.b.data(), all.data(), first, last);
        kernels.bias_act.gradient(a.task, dy.data(), x.data(), dx.data(), sums.data(), first, last);
      }
      all.insert(all.end(), dx.begin(), dx.end());
      all.insert(all.end(), sums.begin(), sums.end());
      return all;
    };
    CHECK(run(0) == run((units.count + 1) / 2));
  });
}

TEST_CASE("TheClampKeepsNanAndStopsGradients") {
  for (const CpuKernels* set : available_cpu_kernels()) {
    const BiasActKernels& kernels = set->bias_act;
    BiasActTask task{Activation::kLrelu, 0.25F, 2, 3, 1, 1, 20};
    std::vector<float> x(20, 1.F), y(20), dx(20);
    x[0] = kNan;
    x[1] = kNone;
    x[2] = -kNone;
    x[3] = 1.5F;
    x[4] = -100;
    x[17] = kNan;
    kernels.forward(task, x.data(), nullptr, y.data(), 0, 1);
    CHECK(std::isnan(y[0]));
    CHECK(std::isnan(y[17]));
    CHECK(y[1] == 3);
    CHECK(y[2] == -3);
    CHECK(y[4] == -3);
    CHECK(y[5] == 2);
    const std::vector<float> ones(20, 1.F);
    kernels.gradient(task, ones.data(), y.data(), dx.data(), nullptr, 0, 1);
    for (const int k : {0, 1, 2, 3, 4, 17}) CHECK(dx[k] == 0);
    CHECK(dx[5] == 2);
    task.clamp = kNone;  // an infinite output is then within it
    kernels.forward(task, x.data(), nullptr, y.data(), 0, 1);
    CHECK(y[1] == kNone);
    kernels.gradient(task, ones.data(), y.data(), dx.data(), nullptr, 0, 1);
    CHECK(dx[1] == 2);
    CHECK(dx[2] == 0.5F);
  }
}

TEST_CASE("ActivationsHaveTheirLimits") {
  for (const CpuKernels* set : available_cpu_kernels()) {
    for (const Activation act : kTwoLines) {
      const BiasActTask task{act, 0.25F, 1, kNone, 1, 1, 19};
      std::vector<float> x(19, 200.F), y(19);
      x[0] = kNan;
      x[1] = -200;
      x[2] = -95;  // e^x is denormal
      x[3] = kNone;
      x[18] = kNan;
      set->bias_act.forward(task, x.data(), nullptr, y.data(), 0, 1);
      CAPTURE(set->name, static_cast<int>(act), y[1], y[2]);
      CHECK(std::isnan(y[0]));
      CHECK(std::isnan(y[18]));
      for (const int k : {1, 2, 5}) {
        CHECK(y[k] == Approx(value(act, x[k])).epsilon(1e-6).margin(1e-37));
      }
      const float limit = static_cast<float>(value(act, 1e30));
      CHECK(y[3] == (limit > 2 ? kNone : limit));
    }
  }
}
