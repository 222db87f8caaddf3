// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/filtered_lrelu/filtered_lrelu_cpu.h"

namespace gantrain {

namespace {

int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// taps[up - 1 - a + up * j] at a * count + j, and zeros behind the last one: UpDownFilter's order.
void add_phases(const double* taps, int64_t n, int64_t up, double gain, std::vector<float>* to) {
  for (int64_t a = 0; a < up; ++a) {
    for (int64_t j = 0; j < divided_up(n, up); ++j) {
      const int64_t k = up - 1 - a + up * j;
      to->push_back(k < n ? static_cast<float>(taps[k] * gain) : 0);
    }
  }
}

}  // namespace

FilteredLreluPlan::FilteredLreluPlan(const FilteredLreluShape& s,
                                     const PlaneFilter& up,
                                     const PlaneFilter& down) {
  static_cast<FilteredLreluShape&>(task_) = s;
  const auto out = [&](int64_t in, int64_t pads, int64_t taps) {
    return (in * s.up + pads + 2 - taps + s.down - 1) / s.down;
  };
  task_.out_h = out(s.in_h, s.pad_y0 + s.pad_y1, up.taps_y + down.taps_y);
  task_.out_w = out(s.in_w, s.pad_x0 + s.pad_x1, up.taps_x + down.taps_x);
  task_.mid_h = (task_.out_h - 1) * s.down + down.taps_y;
  task_.mid_w = (task_.out_w - 1) * s.down + down.taps_x;
  add_up(up, s.gain * static_cast<double>(s.up * s.up));
  add_down(down);
  cut();
}

void FilteredLreluPlan::add_up(const PlaneFilter& f, double gain) {
  const int64_t taps_y = divided_up(f.taps_y, task_.up), taps_x = divided_up(f.taps_x, task_.up);
  task_.up_y = {nullptr, taps_y};
  task_.up_x = {nullptr, taps_x};
  if (f.separable) {
    add_phases(f.values.data(), f.taps_x, task_.up, 1, &up_x_);
    add_phases(f.values.data(), f.taps_x, task_.up, gain, &up_y_);
    task_.up_y.weights = up_y_.data();
    task_.up_x.weights = up_x_.data();
    return;
  }
  for (int64_t k = 0; k < f.taps_y; ++k)
    add_phases(f.values.data() + k * f.taps_x, f.taps_x, task_.up, gain, &up_x_);
  const int64_t row = task_.up * taps_x;
  up_x_.resize(static_cast<size_t>((f.taps_y + 1) * row));  // the last row holds zeros
  for (int64_t a = 0; a < task_.up; ++a) {
    for (int64_t j = 0; j < taps_y; ++j) {
      const int64_t k = std::min(task_.up - 1 - a + task_.up * j, f.taps_y);
      up_rows_.push_back(up_x_.data() + k * row);
    }
  }
  task_.up_rows = up_rows_.data();
}

void FilteredLreluPlan::add_down(const PlaneFilter& f) {
  for (const double value : f.values) down_.push_back(static_cast<float>(value));
  task_.down_y = {down_.data(), f.taps_y};
  task_.down_x = {down_.data(), f.taps_x};
  if (f.separable) return;
  for (int64_t k = 0; k < f.taps_y; ++k) down_rows_.push_back(down_.data() + k * f.taps_x);
  task_.down_rows = down_rows_.data();
}

// Tiles are so narrow that their lines stay in the second cache, and there are enough parts for the
// threads: bands of rows where there are few channels. The numbers do not depend on the cut.
void FilteredLreluPlan::cut() {
  constexpr int64_t kSamples = 128, kParts = 32, kRows = 32, kLanes = 16;
  FilteredLreluTask& t = task_;
  t.tile = divided_up(t.out_w, std::min(divided_up(t.mid_w, kSamples), t.out_w));
  t.tiles = divided_up(t.out_w, t.tile);
  const int64_t parts = std::max<int64_t>(t.samples * divided_up(t.channels, kLanes) * t.tiles, 1);
  const int64_t most = std::max<int64_t>(t.out_h / kRows, 1);
  t.band = divided_up(t.out_h, std::clamp<int64_t>(kParts / parts, 1, most));
  t.bands = divided_up(t.out_h, t.band);
}

}  // namespace gantrain
