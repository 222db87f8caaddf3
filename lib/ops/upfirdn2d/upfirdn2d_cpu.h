// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace gantrain {

constexpr int64_t kFirLines = 8;

// A FIR filter of one axis with up- and down-sampling, without the zeros that up-sampling puts in.
// Output o = a + phases * m is the sum over j < count of weights[j] * input[first + stride * m +
// j], where first, count and weights are those of phase a; inputs outside of the image are 0.
struct FirPhase {
  int64_t first, count;
  const float* weights;
};

// A filter that is an outer product: a vertical filter, then a horizontal one.
struct FirTerm {
  const FirPhase *y, *x;           // one for each phase of the axis
  const int64_t* const* x_places;  // x_places[a][j]: where the line has the input of j at m = 0
};

// A resampling of planes [in_h, in_w, inner], one after another, to planes [out_h, out_w, inner];
// inner is 1, or the number of channels where they are the innermost axis. The result is the sum of
// the terms. FirPlan makes it.
//
// For each row of the result, the vertical filter of the columns [x_begin, x_end) goes to a line in
// the scratch memory, which stays in the processor's first caches, and the horizontal filter goes
// from there to the result. The line holds zeros around, and for inner = 1 it is split: input i of
// x_phases is at (i - line_first) % x_stride * line_pitch + (i - line_first) / x_stride.
struct FirTask {
  int64_t in_h, in_w, out_h, out_w, inner;
  int64_t y_phases, y_stride, x_phases, x_stride;
  int64_t x_begin, x_end;
  int64_t line_first, line_pitch;
  const int64_t* y_places;  // j * in_w * inner
  bool vertical_only;       // there is no horizontal filter: the result is written directly
  const FirTerm* terms;
  int64_t term_count;
  int64_t lines;        // 1 to kFirLines: how many rows are computed at a time, one line for each
  int64_t line_size;    // floats of a line
  int64_t whole_place;  // where the scratch memory has room for a row in one piece
  int64_t scratch;      // floats of the scratch memory
};

struct FirKernels {
  // Computes the rows [first, last) of the result, counted through all planes. `scratch` has
  // task.scratch floats, all 0, and must not be shared by two threads.
  void (*rows)(
      const FirTask& task, const float* x, float* y, float* scratch, int64_t first, int64_t last);
};

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
