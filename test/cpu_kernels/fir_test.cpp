// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ops/upfirdn2d/upfirdn2d_cpu.h"
#include "ops/vector/cpu_kernels.h"
#include "support/catch.h"

using namespace gantrain;

namespace {

struct Case {
  FirFilter filter;
  FirAxis y, x;
  int64_t inner, planes;

  int64_t inputs() const { return planes * y.in * x.in * inner; }
  int64_t outputs() const { return planes * y.out * x.out * inner; }
};

// The definition: up-sampled with zeros, padded, correlated, every down-th result kept.
std::vector<double> definition(const Case& c, const std::vector<float>& in) {
  std::vector<double> out;
  for (int64_t i = 0; i < c.outputs(); ++i) {
    const int64_t channel = i % c.inner, ox = i / c.inner % c.x.out;
    const int64_t oy = i / c.inner / c.x.out % c.y.out, plane = i / c.inner / c.x.out / c.y.out;
    double sum = 0;
    for (int64_t k = 0; k < c.filter.taps_y * c.filter.taps_x; ++k) {
      const int64_t y = oy * c.y.down + k / c.filter.taps_x - c.y.pad;
      const int64_t x = ox * c.x.down + k % c.filter.taps_x - c.x.pad;
      if (y < 0 || x < 0 || y % c.y.up != 0 || x % c.x.up != 0) continue;
      if (y / c.y.up >= c.y.in || x / c.x.up >= c.x.in) continue;
      const int64_t at = (plane * c.y.in + y / c.y.up) * c.x.in + x / c.x.up;
      sum += c.filter.values[k] * in[at * c.inner + channel];
    }
    out.push_back(sum);
  }
  return out;
}

class Cases {
 public:
  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  std::vector<float> numbers(int64_t count) {
    std::vector<float> all(count);
    for (float& x : all) x = std::uniform_real_distribution<float>(-1, 1)(engine_);
    return all;
  }
  FirFilter filter(bool outer_product) {
    return filter(outer_product, between(1, 6), between(0, 3) == 0 ? 12 : between(1, 5));
  }
  FirFilter filter(bool outer_product, int64_t taps_y, int64_t taps_x) {
    FirFilter f{{}, taps_y, taps_x};
    const std::vector<float> y = numbers(f.taps_y), x = numbers(f.taps_x);
    const std::vector<float> any = numbers(f.taps_y * f.taps_x);
    for (int64_t i = 0; i < f.taps_y * f.taps_x; ++i) {
      f.values.push_back(outer_product ? y[i / f.taps_x] * x[i % f.taps_x] : any[i]);
    }
    return f;
  }
  // Crops, pads, and sizes that are no multiple of anything.
  FirAxis axis(int64_t taps, int64_t most, int64_t most_factor) {
    while (true) {
      FirAxis a{between(1, most), 0, between(1, most_factor), between(1, most_factor), 0};
      a.pad = between(-4, 8);
      const int64_t room = a.in * a.up + a.pad + between(-4, 8) - taps;
      a.out = room / a.down + 1;
      if (room >= 0) return a;
    }
  }
  Case next() {
    Case c{filter(between(0, 1) == 0), {}, {}, between(0, 2) == 0 ? between(2, 40) : 1, 2};
    const int64_t most = between(0, 4) == 0 ? 90 : 20, most_factor = between(0, 1) == 0 ? 2 : 4;
    c.y = axis(c.filter.taps_y, most, most_factor);
    c.x = axis(c.filter.taps_x, most, most_factor);
    return c;
  }
  // What networks ask for: four taps, the picture as large, half as large or twice as large.
  Case four_taps() {
    Case c{filter(true, 4, 4), {}, {}, 1, 3};
    const int64_t up = between(1, 2), down = up == 1 ? between(1, 2) : 1;
    for (FirAxis* axis : {&c.y, &c.x}) {
      *axis = {between(3, axis == &c.x ? 75 : 9), 0, up, down, between(0, 3)};
      axis->out = (axis->in * up + axis->pad + between(0, 3) - 4) / down + 1;
    }
    return c;
  }

 private:
  std::mt19937 engine_{12};
};

std::vector<float> resampled(const CpuKernels& kernels,
                             const Case& c,
                             const std::vector<float>& in,
                             int64_t cut) {
  constexpr float kUntouched = 777;
  const FirPlan plan(c.filter, c.y, c.x, c.inner);
  std::vector<float> out(c.outputs() + 64, kUntouched);
  const int64_t rows = c.planes * c.y.out;
  for (const auto& [first, last] : {std::pair<int64_t, int64_t>{0, cut}, {cut, rows}}) {
    std::vector<float> scratch(plan.task().scratch);
    kernels.fir.rows(plan.task(), in.data(), out.data(), scratch.data(), first, last);
  }
  for (int64_t i = c.outputs(); i < static_cast<int64_t>(out.size()); ++i) {
    REQUIRE(out[i] == kUntouched);
  }
  out.resize(c.outputs());
  return out;
}

}  // namespace

TEST_CASE("EverySetResamplesAsDefined") {
  Cases cases;
  for (int round = 0; round < 900; ++round) {
    const Case c = round < 600 ? cases.next() : cases.four_taps();
    const std::vector<float> in = cases.numbers(c.inputs());
    const std::vector<double> want = definition(c, in);
    double scale = 1e-30;
    for (const double v : want) scale = std::max(scale, std::abs(v));
    for (const CpuKernels* set : available_cpu_kernels()) {
      CAPTURE(set->name, round, c.inner, c.y.in, c.x.in, c.y.out, c.x.out);
      const std::vector<float> out = resampled(*set, c, in, 0);
      double worst = 0;
      for (size_t k = 0; k < want.size(); ++k) {
        worst = std::max(worst, std::abs(out[k] - want[k]) / scale);
      }
      CHECK(worst < 2e-6);
      CHECK(resampled(*set, c, in, cases.between(0, c.planes * c.y.out)) == out);
    }
  }
}

TEST_CASE("AnOuterProductIsFoundInSpiteOfRounding") {
  const double taps[] = {1, 3, 3, 1};
  FirFilter f{{}, 4, 4};
  for (const double y : taps) {
    for (const double x : taps) f.values.push_back(static_cast<float>(y * x / 63));
  }
  CHECK(is_outer_product(f));
  f.values[5] *= 1 + 1e-5;
  CHECK_FALSE(is_outer_product(f));
  CHECK(is_outer_product({std::vector<double>(6), 2, 3}));
  CHECK(is_outer_product({{1, 2, 5}, 1, 3}));
  CHECK_FALSE(is_outer_product({{1, 0, 0, 1}, 2, 2}));
  CHECK_FALSE(is_outer_product({{1, 2, 2, std::nan("")}, 2, 2}));
}

TEST_CASE("NumbersThatAreNotFiniteReachNoFurtherThanTheFilter") {
  const Case c{{std::vector<double>(9, 0.5), 3, 3}, {9, 9, 1, 1, 1}, {40, 40, 1, 1, 1}, 1, 1};
  std::vector<float> in(c.inputs(), 1.F);
  in[4 * 40 + 3] = std::numeric_limits<float>::quiet_NaN();
  in[4 * 40 + 30] = std::numeric_limits<float>::infinity();
  for (const CpuKernels* set : available_cpu_kernels()) {
    const std::vector<float> out = resampled(*set, c, in, 0);
    for (int64_t k = 0; k < c.outputs(); ++k) {
      const int64_t y = k / 40, x = k % 40;
      const bool row = std::abs(y - 4) <= 1;
      CAPTURE(set->name, y, x);
      CHECK(std::isnan(out[k]) == (row && std::abs(x - 3) <= 1));
      CHECK(std::isinf(out[k]) == (row && std::abs(x - 30) <= 1));
    }
  }
}
