// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

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

// filtered_lrelu.h for float32. Both filters are either separable, the filters along y and x,
// or one filter of the other axis for each of its taps: rows[k] along x for tap k along y, in the
// order that UpDownFilter says, counted a * taps + j for the filter up.
struct FilteredLreluTask {
  int64_t samples, channels, in_h, in_w, out_h, out_w;
  int64_t up, down, pad_y, pad_x;
  UpDownFilter up_y, up_x, down_y, down_x;  // the gains are in up_y, or in the rows
  const float* const* up_rows;              // null: separable
  const float* const* down_rows;
  float slope, clamp;    // clamp: infinity for none
  const float* bias;     // of each channel, or null
  int64_t mid_h, mid_w;  // samples of the higher rate that the result is made of

  // Read slopes: those of sample (y, x) belong to (y + slope_y, x + slope_x) of slopes_h *
  // slopes_w.
  bool reads;
  int64_t slopes_h, slopes_w, slope_y, slope_x;

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

}  // namespace gantrain
