// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace gantrain {

// Where the numbers of pictures [samples, channels, height, width] lie: distances in floats. Either
// the channels or the columns lie side by side.
struct MapsView {
  float* data;
  int64_t sample, channel, row, column;
};

// A filter along one axis between pixels and samples of the higher rate. Up: sample m = pad + 1 +
// up * (n - 1) + a with 0 <= a < up is the sum over j < taps of weights[a * taps + j] * pixel[n +
// j]. Down: pixel o is the sum over k < taps of weights[k] * sample[down * o + k].
struct UpDownFilter {
  const float* weights;
  int64_t taps;
};

// The pictures, and what happens to them between the filters.
struct FilteredLreluShape {
  int64_t samples, channels, in_h, in_w;
  int64_t up = 1, down = 1;
  int64_t pad_y0 = 0, pad_y1 = 0, pad_x0 = 0, pad_x1 = 0;
  double gain = 1, slope = 0.2;  // the gain is one of the samples, beside up^2
  double clamp = std::numeric_limits<double>::infinity();
};

// Where slopes that are read lie: those of sample (y, x) belong to (y + slope_y, x + slope_x) of
// height * width.
struct ReadSlopes {
  int64_t height, width, slope_y, slope_x;
};

// filtered_lrelu.h for float32. Both filters are either separable, the filters along y and x,
// or one filter of the other axis for each of its taps: rows[k] along x for tap k along y, in the
// order that UpDownFilter says, counted a * taps + j for the filter up.
struct FilteredLreluTask : FilteredLreluShape {
  int64_t out_h, out_w;
  int64_t mid_h, mid_w;                     // samples of the higher rate that the result is made of
  UpDownFilter up_y, up_x, down_y, down_x;  // the gains are in up_y, or in the rows
  const float* const* up_rows;              // null: separable
  const float* const* down_rows;
  const float* bias;  // of each channel, or null
  bool reads;         // slopes
  ReadSlopes read;

  // How the work is cut: rows of the result a band, columns of it a tile.
  int64_t band, bands, tile, tiles;
};

struct FilteredLreluKernels {
  // Channels are computed so many at a time, one of a vector's lanes each, whatever the layout.
  int64_t lanes;

  // Bytes of the slopes of `rows` * `columns` samples of the higher rate, for all channels.
  int64_t (*slope_bytes)(int64_t samples, int64_t channels, int64_t rows, int64_t columns);
  // Floats that a call needs.
  int64_t (*scratch)(const FilteredLreluTask& task);
  // The parts of the work: bands and tiles of the channels' groups.
  int64_t (*parts)(const FilteredLreluTask& task);
  // Computes the parts [first, last). `slopes` are written, read, or neither (null).
  void (*compute)(const FilteredLreluTask& task,
                  const MapsView& x,
                  const MapsView& y,
                  uint8_t* slopes,
                  float* scratch,
                  int64_t first,
                  int64_t last);
};

// A filter for correlation: [taps_x], used along both axes (taps_y is taps_x then), or in rows
// [taps_y, taps_x].
struct PlaneFilter {
  std::vector<double> values;
  bool separable;
  int64_t taps_y, taps_x;
};

// Owns what a FilteredLreluTask points to, but for the bias. It writes slopes or none; read() makes
// it read them.
class FilteredLreluPlan {
 public:
  FilteredLreluPlan(const FilteredLreluShape& shape,
                    const PlaneFilter& up,
                    const PlaneFilter& down);
  FilteredLreluPlan(const FilteredLreluPlan&) = delete;
  FilteredLreluPlan& operator=(const FilteredLreluPlan&) = delete;

  void read(const ReadSlopes& slopes) {
    task_.reads = true;
    task_.read = slopes;
  }
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
