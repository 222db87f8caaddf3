// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "ops/filtered_lrelu/filtered_lrelu_cpu.h"
#include "ops/vector/cpu_kernels.h"
#include "support/catch.h"

using namespace gantrain;

namespace {

struct LreluCase {
  FilteredLreluShape shape;
  PlaneFilter up, down;
  bool channels_last;
};

double tap(const PlaneFilter& f, int64_t y, int64_t x) {
  if (y < 0 || x < 0 || y >= f.taps_y || x >= f.taps_x) return 0;
  return f.separable ? f.values[y] * f.values[x] : f.values[y * f.taps_x + x];
}

// [samples, channels, h, w] in any order of memory.
struct Maps {
  int64_t samples, channels, h, w;
  bool channels_last;
  std::vector<float> data;

  Maps(int64_t n, int64_t c, int64_t height, int64_t width, bool last)
      : samples(n), channels(c), h(height), w(width), channels_last(last), data(n * c * h * w) {}
  MapsView view() {
    if (channels_last) return {data.data(), h * w * channels, 1, w * channels, channels};
    return {data.data(), h * w * channels, h * w, w, 1};
  }
  float& at(int64_t n, int64_t c, int64_t y, int64_t x) {
    const MapsView v = view();
    return data[n * v.sample + c * v.channel + y * v.row + x * v.column];
  }
  // The largest distance of a channel from what it should be.
  double furthest(int64_t n, int64_t c, const std::vector<double>& want) {
    double worst = 0;
    for (int64_t o = 0; o < h * w; ++o)
      worst = std::max(worst, std::abs(at(n, c, o / w, o % w) - want[o]));
    return worst;
  }
};

// What the definition says of one channel: samples before the activation, after it, and the result.
struct Definition {
  std::vector<double> before, after, out;
};

// The first k at which `at` + k is a multiple of `up`.
int64_t first_tap(int64_t at, int64_t up) { return ((-at) % up + up) % up; }

Definition definition(const LreluCase& c,
                      const FilteredLreluTask& t,
                      Maps& x,
                      int64_t n,
                      int64_t ch,
                      const std::vector<double>* slopes) {
  const FilteredLreluShape& s = c.shape;
  Definition d;
  for (int64_t i = 0; i < t.mid_h * t.mid_w; ++i) {
    double sum = 0;
    // Between two samples of x lie `up` - 1 zeros.
    const int64_t y = i / t.mid_w - s.pad_y0, column = i % t.mid_w - s.pad_x0;
    for (int64_t ky = first_tap(y, s.up); ky < c.up.taps_y; ky += s.up) {
      for (int64_t kx = first_tap(column, s.up); kx < c.up.taps_x; kx += s.up) {
        const int64_t py = (y + ky) / s.up, px = (column + kx) / s.up;
        if (y + ky < 0 || column + kx < 0 || py >= s.in_h || px >= s.in_w) continue;
        const double bias = t.bias == nullptr ? 0 : t.bias[ch];
        sum += tap(c.up, ky, kx) * (x.at(n, ch, py, px) + bias);
      }
    }
    sum *= s.gain * static_cast<double>(s.up * s.up);
    d.before.push_back(sum);
    if (slopes != nullptr) {
      sum *= (*slopes)[i];
    } else {
      sum = std::clamp(sum > 0 ? sum : sum * s.slope, -s.clamp, s.clamp);
    }
    d.after.push_back(sum);
  }
  for (int64_t o = 0; o < t.out_h * t.out_w; ++o) {
    double sum = 0;
    for (int64_t ky = 0; ky < c.down.taps_y; ++ky) {
      for (int64_t kx = 0; kx < c.down.taps_x; ++kx) {
        const int64_t y = o / t.out_w * s.down + ky, column = o % t.out_w * s.down + kx;
        sum += tap(c.down, ky, kx) * d.after[y * t.mid_w + column];
      }
    }
    d.out.push_back(sum);
  }
  return d;
}

class LreluCases {
 public:
  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  double number() { return std::uniform_real_distribution<double>(-1, 1)(engine_); }
  PlaneFilter filter(int64_t factor) {
    PlaneFilter f{{}, between(0, 2) > 0, 0, 0};
    f.taps_x = between(0, 1) == 0 ? 6 * factor : between(1, 7);
    f.taps_y = f.separable ? f.taps_x : between(0, 1) == 0 ? f.taps_x : between(1, 7);
    for (int64_t i = 0; i < (f.separable ? f.taps_x : f.taps_x * f.taps_y); ++i)
      f.values.push_back(number());
    return f;
  }
  LreluCase next() {
    LreluCase c;
    c.channels_last = between(0, 1) == 0;
    c.shape.samples = between(1, 2);
    c.shape.channels = between(0, 1) == 0 ? 16 : between(1, 37);
    c.shape.up = between(1, 4);
    c.shape.down = between(1, 4);
    c.up = filter(c.shape.up);
    c.down = filter(c.shape.down);
    c.shape.gain = 1.4;
    c.shape.slope = between(0, 4) * 0.25;
    if (between(0, 1) == 0) c.shape.clamp = 1;
    c.shape.in_h = between(0, 9) == 0 ? 80 : between(1, 14);
    c.shape.in_w = between(0, 5) == 0 ? 120 : between(1, 20);
    for (int64_t* pad : {&c.shape.pad_y0, &c.shape.pad_x0}) *pad = between(-4, 9);
    const auto other = [&](int64_t in, int64_t pad, int64_t taps) {
      return std::max(between(-4, 9), taps - 1 - in * c.shape.up - pad);
    };
    c.shape.pad_y1 = other(c.shape.in_h, c.shape.pad_y0, c.up.taps_y + c.down.taps_y);
    c.shape.pad_x1 = other(c.shape.in_w, c.shape.pad_x0, c.up.taps_x + c.down.taps_x);
    return c;
  }

 private:
  std::mt19937 engine_{7};
};

struct Computed {
  std::vector<float> out;
  std::vector<uint8_t> slopes;
};

// In two pieces, cut at `cut` of a hundred.
Computed computed(const FilteredLreluKernels& k,
                  const FilteredLreluTask& t,
                  Maps& x,
                  std::vector<uint8_t> slopes,
                  int64_t cut) {
  constexpr float kUntouched = 777;
  Maps y(t.samples, t.channels, t.out_h, t.out_w, x.channels_last);
  const size_t size = y.data.size();
  y.data.assign(size + 32, kUntouched);
  if (!t.reads) slopes.assign(k.slope_bytes(t.samples, t.channels, t.mid_h, t.mid_w), 0);
  const int64_t parts = k.parts(t), middle = parts * cut / 100;
  for (const auto& [first, last] : {std::pair<int64_t, int64_t>{0, middle}, {middle, parts}}) {
    std::vector<float> scratch(k.scratch(t), std::nanf(""));
    k.compute(t, x.view(), y.view(), slopes.data(), scratch.data(), first, last);
  }
  for (size_t i = size; i < y.data.size(); ++i) REQUIRE(y.data[i] == kUntouched);
  y.data.resize(size);
  return {y.data, slopes};
}

// What one set of kernels computes of a case, and how far it is from the definition.
struct Checked {
  const CpuKernels* kernels;
  std::vector<uint8_t> slopes;
  Maps y, dx;
  double worst = 0, back_worst = 0;
};

double scale_of(const LreluCase& c) {
  double up = 0, down = 0;
  for (const double v : c.up.values) up += std::abs(v);
  for (const double v : c.down.values) down += std::abs(v);
  if (c.up.separable) up *= up;
  if (c.down.separable) down *= down;
  return 3 * up * down * static_cast<double>(c.shape.up * c.shape.up);
}

}  // namespace

TEST_CASE("EverySetsFilteredLreluIsWhatIsDefined") {
  LreluCases cases;
  for (int round = 0; round < 100; ++round) {
    const LreluCase c = cases.next();
    std::vector<float> bias(c.shape.channels);
    for (float& b : bias) b = static_cast<float>(cases.number());
    FilteredLreluPlan plan(c.shape, c.up, c.down);
    if (round % 3 > 0) plan.add_bias(bias.data());
    const FilteredLreluTask& t = plan.task();
    Maps x(c.shape.samples, c.shape.channels, c.shape.in_h, c.shape.in_w, c.channels_last);
    for (float& v : x.data) v = static_cast<float>(cases.number());
    // The transposed filters of another picture read what this one wrote.
    FilteredLreluShape back = c.shape;
    back.in_h = t.out_h;
    back.in_w = t.out_w;
    std::swap(back.up, back.down);
    PlaneFilter up = c.down, down = c.up;
    std::reverse(up.values.begin(), up.values.end());
    std::reverse(down.values.begin(), down.values.end());
    back.pad_y0 = c.up.taps_y + c.down.taps_y - 2 - c.shape.pad_y0;
    back.pad_x0 = c.up.taps_x + c.down.taps_x - 2 - c.shape.pad_x0;
    back.pad_y1 =
        c.shape.in_h * c.shape.up - t.out_h * c.shape.down + c.shape.pad_y0 - c.shape.up + 1;
    back.pad_x1 =
        c.shape.in_w * c.shape.up - t.out_w * c.shape.down + c.shape.pad_x0 - c.shape.up + 1;
    FilteredLreluPlan transposed(back, up, down);
    transposed.read(
        {t.mid_h, t.mid_w, c.shape.pad_y0 - c.up.taps_y + 1, c.shape.pad_x0 - c.up.taps_x + 1});
    const FilteredLreluTask& r = transposed.task();
    REQUIRE(r.out_h == c.shape.in_h);
    REQUIRE(r.out_w == c.shape.in_w);
    Maps dy(c.shape.samples, c.shape.channels, t.out_h, t.out_w, !c.channels_last);
    for (float& v : dy.data) v = static_cast<float>(cases.number());

    std::vector<Checked> all;
    for (const CpuKernels* set : available_cpu_kernels()) {
      const Computed found = computed(set->filtered_lrelu, t, x, {}, 0);
      const Computed back_found = computed(set->filtered_lrelu, r, dy, found.slopes, 0);
      Maps y(c.shape.samples, c.shape.channels, t.out_h, t.out_w, c.channels_last);
      Maps dx(c.shape.samples, c.shape.channels, r.out_h, r.out_w, !c.channels_last);
      y.data = found.out;
      dx.data = back_found.out;
      all.push_back({set, found.slopes, y, dx});
    }
    bool near = false;  // to a bend, where rounding decides
    for (int64_t n = 0; n < c.shape.samples; ++n) {
      for (int64_t ch = 0; ch < c.shape.channels; ++ch) {
        const Definition d = definition(c, t, x, n, ch, nullptr);
        for (Checked& set : all) set.worst = std::max(set.worst, set.y.furthest(n, ch, d.out));
        std::vector<double> slopes;
        for (int64_t j = 0; j < r.mid_h * r.mid_w; ++j) {
          const int64_t my = j / r.mid_w + r.read.slope_y, mx = j % r.mid_w + r.read.slope_x;
          const bool inside = my >= 0 && mx >= 0 && my < t.mid_h && mx < t.mid_w;
          const double v = inside ? d.before[my * t.mid_w + mx] : 0;
          const double bent = v > 0 ? v : v * c.shape.slope;
          near = near || (inside && v != 0 && std::abs(v) < 1e-4) ||
                 std::abs(std::abs(bent) - c.shape.clamp) < 1e-4;
          slopes.push_back(!inside || std::abs(bent) >= c.shape.clamp ? 0
                           : v > 0                                    ? 1
                                                                      : c.shape.slope);
        }
        if (near) continue;
        const LreluCase b{back, up, down, false};
        const Definition e = definition(b, r, dy, n, ch, &slopes);
        for (Checked& set : all)
          set.back_worst = std::max(set.back_worst, set.dx.furthest(n, ch, e.out));
      }
    }
    for (Checked& set : all) {
      const FilteredLreluKernels& k = set.kernels->filtered_lrelu;
      CAPTURE(set.kernels->name,
              round,
              c.shape.up,
              c.shape.down,
              c.shape.in_h,
              c.shape.in_w,
              c.up.separable,
              c.down.separable,
              c.shape.channels,
              t.tiles,
              t.bands);
      CHECK(set.worst < 1e-6 * scale_of(c));
      if (!near) CHECK(set.back_worst < 1e-6 * scale_of(c));
      const int64_t cut = cases.between(0, 100);
      const Computed cut_found = computed(k, t, x, {}, cut);
      CHECK(cut_found.out == set.y.data);
      CHECK(cut_found.slopes == set.slopes);
      CHECK(computed(k, r, dy, set.slopes, cut).out == set.dx.data);
    }
  }
}
