// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/upfirdn2d/upfirdn2d_cpu.h"

namespace gantrain {

namespace {

constexpr int64_t kMostLanes = 16;  // of any instruction set

int64_t floor_divided(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }
int64_t rounded_up(int64_t a, int64_t step) { return (a + step - 1) / step * step; }

struct Pivot {
  int64_t row = 0, column = 0;
  double value = 0;
};

Pivot pivot_of(const FirFilter& f) {
  const auto largest = std::max_element(f.values.begin(), f.values.end(), [](double a, double b) {
    return std::abs(a) < std::abs(b);
  });
  const int64_t at = largest - f.values.begin();
  return {at / f.taps_x, at % f.taps_x, *largest};
}

struct Factors {
  std::vector<double> y, x;
};

Factors factors_of(const FirFilter& f) {
  const Pivot pivot = pivot_of(f);
  Factors factors;
  for (int64_t i = 0; i < f.taps_y; ++i) {
    factors.y.push_back(pivot.value == 0 ? 0 : f.values[i * f.taps_x + pivot.column] / pivot.value);
  }
  for (int64_t j = 0; j < f.taps_x; ++j) {
    factors.x.push_back(f.values[pivot.row * f.taps_x + j]);
  }
  return factors;
}

std::vector<double> row_of(const FirFilter& f, int64_t row) {
  const auto begin = f.values.begin() + row * f.taps_x;
  return {begin, begin + f.taps_x};
}

int64_t outputs_of_phase(const FirAxis& axis, int64_t phases, int64_t phase) {
  return phase < axis.out ? (axis.out - phase + phases - 1) / phases : 0;
}

}  // namespace

bool is_outer_product(const FirFilter& f) {
  // Rounding the factors' products, their sum and a gain to float32 leaves differences of this.
  constexpr double kRounding = 1.0 / (1 << 21);
  const Pivot pivot = pivot_of(f);
  for (int64_t i = 0; i < f.taps_y; ++i) {
    for (int64_t j = 0; j < f.taps_x; ++j) {
      const double have = f.values[i * f.taps_x + j] * pivot.value;
      const double want =
          f.values[i * f.taps_x + pivot.column] * f.values[pivot.row * f.taps_x + j];
      // Not a number is no outer product either.
      if (!(std::abs(have - want) <= kRounding * std::abs(have))) return false;
    }
  }
  return true;
}

FirPlan::Line FirPlan::line_of(const std::vector<double>& taps, const FirAxis& axis) {
  const int64_t phases = axis.up / std::gcd(axis.up, axis.down);
  const auto count = static_cast<int64_t>(taps.size());
  Line line;
  for (int64_t a = 0; a < phases; ++a) {
    // Tap k meets the up-sampled input at position `from` + k, which is an input at multiples of
    // up.
    const int64_t from = a * axis.down - axis.pad;
    const int64_t first = -floor_divided(-from, axis.up);
    std::vector<float> weights;
    for (int64_t k = first * axis.up - from; k < count; k += axis.up) {
      weights.push_back(static_cast<float>(taps[k]));
    }
    line.weights.push_back(std::move(weights));
    line.phases.push_back({first, static_cast<int64_t>(line.weights.back().size()), nullptr});
  }
  for (int64_t a = 0; a < phases; ++a) line.phases[a].weights = line.weights[a].data();
  return line;
}

// Finds which inputs the horizontal filters read, and gives each a place in the line.
void FirPlan::lay_out_line(const FirAxis& x) {
  int64_t begin = x.in, end = 0;  // may lie outside of the image
  for (const Line& line : horizontal_) {
    for (int64_t a = 0; a < task_.x_phases; ++a) {
      const int64_t outputs = outputs_of_phase(x, task_.x_phases, a);
      const FirPhase& phase = line.phases[a];
      if (outputs == 0 || phase.count == 0) continue;
      begin = std::min(begin, phase.first);
      end = std::max(end, phase.first + (outputs - 1) * task_.x_stride + phase.count);
    }
  }
  task_.x_begin = std::clamp<int64_t>(begin, 0, x.in);
  task_.x_end = std::clamp<int64_t>(end, task_.x_begin, x.in);
  const bool split = task_.inner == 1;
  const int64_t parts = split ? task_.x_stride : 1;
  // The first input of the image that is read lies at the start of a part.
  task_.line_first = task_.x_begin - rounded_up(std::max<int64_t>(task_.x_begin - begin, 0), parts);
  // Vectors may be read and written, as zeros, behind the end.
  const int64_t slack = 4 * kMostLanes;
  const int64_t inputs = std::max(end, task_.x_end) - task_.line_first;
  task_.line_pitch = rounded_up((inputs + parts - 1) / parts * task_.inner + slack, kMostLanes);
  for (Line& line : horizontal_) {
    for (const FirPhase& phase : line.phases) {
      std::vector<int64_t> places;
      for (int64_t j = 0; j < phase.count; ++j) {
        const int64_t at = phase.first + j - task_.line_first;
        places.push_back(split ? at % parts * task_.line_pitch + at / parts : at * task_.inner);
      }
      line.places.push_back(std::move(places));
    }
    for (const auto& places : line.places) line.place_of_phase.push_back(places.data());
  }
  constexpr int64_t kShortLines = 4096;  // floats; a part of the first cache
  task_.line_size = parts * task_.line_pitch;
  task_.lines = std::clamp<int64_t>(kShortLines / task_.line_size, 1, kFirLines);
  task_.whole_place = task_.lines * task_.line_size;
  task_.scratch = task_.whole_place + std::max(x.in, x.out) + slack;
}

FirPlan::FirPlan(const FirFilter& filter, const FirAxis& y, const FirAxis& x, int64_t inner) {
  task_.in_h = y.in;
  task_.in_w = x.in;
  task_.out_h = y.out;
  task_.out_w = x.out;
  task_.inner = inner;
  task_.y_phases = y.up / std::gcd(y.up, y.down);
  task_.y_stride = y.down / std::gcd(y.up, y.down);
  task_.x_phases = x.up / std::gcd(x.up, x.down);
  task_.x_stride = x.down / std::gcd(x.up, x.down);

  const bool one = is_outer_product(filter);
  if (one) {
    const Factors factors = factors_of(filter);
    vertical_.push_back(line_of(factors.y, y));
    horizontal_.push_back(line_of(factors.x, x));
  } else {
    for (int64_t row = 0; row < filter.taps_y; ++row) {
      FirAxis moved = y;
      moved.pad -= row;
      vertical_.push_back(line_of({1}, moved));
      horizontal_.push_back(line_of(row_of(filter, row), x));
    }
  }
  const bool bare = one && filter.taps_x == 1 && x.up == 1 && x.down == 1;
  task_.vertical_only = bare && x.pad == 0 && x.out == x.in;
  if (task_.vertical_only) {
    for (std::vector<float>& weights : vertical_[0].weights) {
      for (float& w : weights) w *= horizontal_[0].weights[0][0];
    }
  }
  lay_out_line(x);

  for (int64_t j = 0; j < filter.taps_y; ++j) y_places_.push_back(j * x.in * inner);
  task_.y_places = y_places_.data();
  for (size_t i = 0; i < vertical_.size(); ++i) {
    terms_.push_back({vertical_[i].phases.data(),
                      horizontal_[i].phases.data(),
                      horizontal_[i].place_of_phase.data()});
  }
  task_.terms = terms_.data();
  task_.term_count = static_cast<int64_t>(terms_.size());
}

}  // namespace gantrain
