// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "ops/filtered_lrelu/filtered_lrelu_cpu.h"

namespace gantrain {

// A filter for correlation: [taps_x], used along both axes (taps_y is taps_x then), or in rows
// [taps_y, taps_x].
struct PlaneFilter {
  std::vector<double> values;
  bool separable;
  int64_t taps_y, taps_x;
};

// The pictures, and what happens to them between the filters.
struct FilteredLreluShape {
  int64_t samples, channels, in_h, in_w;
  int64_t up = 1, down = 1;
  int64_t pad_y0 = 0, pad_y1 = 0, pad_x0 = 0, pad_x1 = 0;
  double gain = 1, slope = 0.2;  // the gain is one of the samples, beside up^2
  double clamp = std::numeric_limits<double>::infinity();
};

// Owns what a FilteredLreluTask points to, but for the bias. It writes slopes or none; reading()
// makes it read them.
class FilteredLreluPlan {
 public:
  FilteredLreluPlan(const FilteredLreluShape& shape,
                    const PlaneFilter& up,
                    const PlaneFilter& down);
  FilteredLreluPlan(const FilteredLreluPlan&) = delete;
  FilteredLreluPlan& operator=(const FilteredLreluPlan&) = delete;

  // The slopes of height * width samples are read, those of (y + slope_y, x + slope_x) for (y, x).
  struct Slopes {
    int64_t height, width, slope_y, slope_x;
  };
  void read(const Slopes& slopes);
  void add_bias(const float* bias) { task_.bias = bias; }

  const FilteredLreluTask& task() const { return task_; }

 private:
  void add_up(const PlaneFilter& filter, double gain);
  void add_down(const PlaneFilter& filter);
  void cut();

  FilteredLreluTask task_{};
  std::vector<float> up_y_, up_x_, down_;
  std::vector<const float*> up_rows_, down_rows_;
};

}  // namespace gantrain
