// SPDX-License-Identifier: Apache-2.0
#include "cpu_kernels/winograd_kernels.h"
#include "cpu_kernels/winograd_transform.h"

namespace gantrain::GANTRAIN_ISA {

namespace {

// Calls visit(t, offset) for each tap t = ty * TapsX + tx, which lies `offset` floats into a
// kernel.
template <int64_t TapsY, int64_t TapsX, class Visit>
inline void for_each_tap(const KernelView& w, const TapChoice& choice, const Visit& visit) {
  for (int64_t ty = 0; ty < TapsY; ++ty) {
    const int64_t y = choice.step * (choice.flipped ? TapsY - 1 - ty : ty) + choice.first_y;
    for (int64_t tx = 0; tx < TapsX; ++tx) {
      const int64_t x = choice.step * (choice.flipped ? TapsX - 1 - tx : tx) + choice.first_x;
      visit(ty * TapsX + tx, y * w.y + x * w.x);
    }
  }
}

// How many lanes hold channels of the kernel, from this one on.
int64_t lanes_from(int64_t column, int64_t columns) {
  const int64_t left = columns - column;
  return left < 0 ? 0 : left < kLanes ? left : kLanes;
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
        alignas(64) float values[Y * X][kLanes] = {};
        const float* from = w.data + row * w.row + column * w.column;
        for_each_tap<Y, X>(w, choice, [&](int64_t t, int64_t offset) {
          for (int64_t l = 0; l < lanes; ++l) values[t][l] = from[offset + l * w.column];
        });
        Vec g[Y * X], points[kPoints];
        for (int64_t t = 0; t < Y * X; ++t) g[t] = load(values[t]);
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
        float* to = w.data + row * w.row + column * w.column;
        for_each_tap<Y, X>(w, choice, [&](int64_t t, int64_t offset) {
          alignas(64) float values[kLanes];
          store(values, g[t]);
          for (int64_t l = 0; l < lanes; ++l) to[offset + l * w.column] = values[l];
        });
      }
    }
  });
}

}  // namespace gantrain::GANTRAIN_ISA
