// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "ops/upfirdn2d/upfirdn2d_cpu.h"

namespace gantrain {

// What happens along one axis: `up` - 1 zeros after each input, `pad` zeros before the first one
// (negative: that many are cropped), the filter, and every down-th result kept.
struct FirAxis {
  int64_t in, out, up, down, pad;
};

// A filter [taps_y, taps_x] for correlation, in rows.
struct FirFilter {
  std::vector<double> values;
  int64_t taps_y, taps_x;
};

// Says whether the filter is an outer product up to the rounding of its values to float32.
bool is_outer_product(const FirFilter& filter);

// Owns what a FirTask points to. A filter that is an outer product is one term; another one has a
// term for each of its rows.
class FirPlan {
 public:
  FirPlan(const FirFilter& filter, const FirAxis& y, const FirAxis& x, int64_t inner);
  FirPlan(const FirPlan&) = delete;
  FirPlan& operator=(const FirPlan&) = delete;

  const FirTask& task() const { return task_; }

 private:
  struct Line {
    std::vector<FirPhase> phases;
    std::vector<std::vector<float>> weights;
    std::vector<std::vector<int64_t>> places;
    std::vector<const int64_t*> place_of_phase;
  };

  static Line line_of(const std::vector<double>& taps, const FirAxis& axis);
  void lay_out_line(const FirAxis& x);

  FirTask task_{};
  std::vector<Line> vertical_, horizontal_;
  std::vector<FirTerm> terms_;
  std::vector<int64_t> y_places_;
};

}  // namespace gantrain
