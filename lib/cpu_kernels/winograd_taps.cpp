// SPDX-License-Identifier: Apache-2.0
#include "cpu_kernels/shuffles.h"
#include "cpu_kernels/winograd_kernels.h"
#include "cpu_kernels/winograd_transform.h"

namespace gantrain::GANTRAIN_ISA {

namespace {

constexpr int64_t kMostTaps = 16;  // of a kernel, a multiple of kLanes

// Which of the kernel's taps the chosen ones are: calls visit(t, place) for t = ty * TapsX + tx.
template <int64_t TapsY, int64_t TapsX, class Visit>
inline void for_each_tap(const KernelView& w, const TapChoice& choice, const Visit& visit) {
  for (int64_t ty = 0; ty < TapsY; ++ty) {
    const int64_t y = choice.step * (choice.flipped ? TapsY - 1 - ty : ty) + choice.first_y;
    for (int64_t tx = 0; tx < TapsX; ++tx) {
      const int64_t x = choice.step * (choice.flipped ? TapsX - 1 - tx : tx) + choice.first_x;
      visit(ty * TapsX + tx, y * w.side + x);
    }
  }
}

// How many lanes hold channels of the kernel, from this one on.
int64_t lanes_from(int64_t column, int64_t columns) {
  const int64_t left = columns - column;
  return left < 0 ? 0 : least(left, kLanes);
}

// Reads all taps of one row and `lanes` columns, from their first one on: values[tap][column].
inline void read_taps(const KernelView& w, const float* from, int64_t lanes, Vec* values) {
  const int64_t taps = w.side * w.side;
  for (int64_t t = 0; t < taps; t += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l)
      values[t + l] = l < lanes ? load_within(from + l * w.column + t, taps - t) : Vec{};
    transpose(values + t);
  }
}

// Writes those of these taps whose bits are set in `chosen`.
inline void write_taps(
    const KernelView& w, Vec* values, uint32_t chosen, int64_t lanes, float* to) {
  for (int64_t t = 0; t < w.side * w.side; t += kLanes) {
    transpose(values + t);
    for (int64_t l = 0; l < lanes; ++l)
      store_masked(to + l * w.column + t, values[t + l], chosen >> t & ((1U << kLanes) - 1));
  }
}

}  // namespace

void transform_kernel(const KernelView& w,
                      const TapChoice& choice,
                      TapCounts taps,
                      int64_t panel_of_rows,
                      int64_t panel,
                      int64_t first_row,
                      int64_t all_rows,
                      float* u) {
  with_taps(taps, [&]<int64_t Y, int64_t X>() {
    constexpr int64_t kPoints = Transform<Y>::kSide * Transform<X>::kSide;
    for (int64_t k = 0; k < kPanel; ++k) {
      const int64_t row = panel_of_rows * kPanel + k;
      for (int64_t c = 0; c < kPanel; c += kLanes) {
        const int64_t column = panel * kPanel + c;
        const int64_t lanes = row < w.rows ? lanes_from(column, w.columns) : 0;
        Vec values[kMostTaps], g[Y * X], points[kPoints];
        read_taps(w, w.data + row * w.row + column * w.column, lanes, values);
        for_each_tap<Y, X>(w, choice, [&](int64_t t, int64_t place) { g[t] = values[place]; });
        both_axes<TapsAxis<Y>, TapsAxis<X>>(g, points);
        float* to = u + (first_row + k) * kPanel + c;
        for (int64_t p = 0; p < kPoints; ++p) store(to + p * point_stride(all_rows), points[p]);
      }
    }
  });
}

void kernel_gradient(const float* du,
                     const TapChoice& choice,
                     TapCounts taps,
                     int64_t panel_of_rows,
                     int64_t panel,
                     int64_t all_rows,
                     const KernelView& w) {
  with_taps(taps, [&]<int64_t Y, int64_t X>() {
    constexpr int64_t kPoints = Transform<Y>::kSide * Transform<X>::kSide;
    for (int64_t row = panel_of_rows * kPanel; row < (panel_of_rows + 1) * kPanel; ++row) {
      if (row >= w.rows) break;
      for (int64_t c = 0; c < kPanel; c += kLanes) {
        const int64_t column = panel * kPanel + c, lanes = lanes_from(column, w.columns);
        const float* from = du + row * kPanel + c;
        Vec points[kPoints], g[Y * X];
        for (int64_t p = 0; p < kPoints; ++p) points[p] = load(from + p * point_stride(all_rows));
        both_axes<TapsGradientAxis<Y>, TapsGradientAxis<X>>(points, g);
        Vec values[kMostTaps] = {};
        uint32_t chosen = 0;
        for_each_tap<Y, X>(w, choice, [&](int64_t t, int64_t place) {
          values[place] = g[t];
          chosen |= 1U << place;
        });
        write_taps(w, values, chosen, lanes, w.data + row * w.row + column * w.column);
      }
    }
  });
}

}  // namespace gantrain::GANTRAIN_ISA
