// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/convolution/winograd_cpu.h"
#include "ops/vector/vector.h"

// The one-dimensional transforms of the algorithm of Toom and Cook, for correlations y[i] = sum
// over t of g[t] d[i + t] with four results. Each works on vectors, a channel in each lane.
namespace gantrain::GANTRAIN_ISA {

template <int64_t Taps>
struct Transform;

// Points 0, a, -a, b, -b and infinity.
template <>
struct Transform<3> {
  static constexpr int64_t kSide = 6;
  static constexpr float kA = 0.625F, kB = 1.5F;
  static constexpr float kAA = kA * kA, kBB = kB * kB;
  static constexpr float kAtA = 1 / (2 * kAA * (kAA - kBB)), kAtB = 1 / (2 * kBB * (kBB - kAA));
  static constexpr float kAt0 = 1 / (kAA * kBB);

  static void of_input(const Vec* d, Vec* v) {
    const Vec even_a = d[4] - kBB * d[2], odd_a = kA * (d[3] - kBB * d[1]);
    const Vec even_b = d[4] - kAA * d[2], odd_b = kB * (d[3] - kAA * d[1]);
    v[0] = d[4] - (kAA + kBB) * d[2] + kAA * kBB * d[0];
    v[1] = even_a + odd_a;
    v[2] = even_a - odd_a;
    v[3] = even_b + odd_b;
    v[4] = even_b - odd_b;
    v[5] = d[5] - (kAA + kBB) * d[3] + kAA * kBB * d[1];
  }

  static void of_taps(const Vec* g, Vec* u) {
    const Vec even_a = kAtA * g[0] + (kAtA * kAA) * g[2], odd_a = (kAtA * kA) * g[1];
    const Vec even_b = kAtB * g[0] + (kAtB * kBB) * g[2], odd_b = (kAtB * kB) * g[1];
    u[0] = kAt0 * g[0];
    u[1] = even_a + odd_a;
    u[2] = even_a - odd_a;
    u[3] = even_b + odd_b;
    u[4] = even_b - odd_b;
    u[5] = g[2];
  }

  static void to_result(const Vec* m, Vec* y) {
    const Vec even_a = m[1] + m[2], odd_a = m[1] - m[2];
    const Vec even_b = m[3] + m[4], odd_b = m[3] - m[4];
    y[0] = m[0] + even_a + even_b;
    y[1] = kA * odd_a + kB * odd_b;
    y[2] = kAA * even_a + kBB * even_b;
    y[3] = (kA * kAA) * odd_a + (kB * kBB) * odd_b + m[5];
  }

  // The adjoint of to_result().
  static void of_gradient(const Vec* y, Vec* m) {
    const Vec even_a = y[0] + kAA * y[2], odd_a = kA * y[1] + (kA * kAA) * y[3];
    const Vec even_b = y[0] + kBB * y[2], odd_b = kB * y[1] + (kB * kBB) * y[3];
    m[0] = y[0];
    m[1] = even_a + odd_a;
    m[2] = even_a - odd_a;
    m[3] = even_b + odd_b;
    m[4] = even_b - odd_b;
    m[5] = y[3];
  }

  // The adjoint of of_taps().
  static void to_taps(const Vec* u, Vec* g) {
    const Vec even_a = kAtA * (u[1] + u[2]), odd_a = kAtA * (u[1] - u[2]);
    const Vec even_b = kAtB * (u[3] + u[4]), odd_b = kAtB * (u[3] - u[4]);
    g[0] = kAt0 * u[0] + even_a + even_b;
    g[1] = kA * odd_a + kB * odd_b;
    g[2] = kAA * even_a + kBB * even_b + u[5];
  }
};

// Points a, -a, b, -b and infinity.
template <>
struct Transform<2> {
  static constexpr int64_t kSide = 5;
  static constexpr float kA = 0.375F, kB = 1.25F;
  static constexpr float kAA = kA * kA, kBB = kB * kB;
  static constexpr float kAtA = 1 / (2 * kA * (kAA - kBB)), kAtB = 1 / (2 * kB * (kBB - kAA));

  static void of_input(const Vec* d, Vec* v) {
    const Vec even_a = kA * (d[2] - kBB * d[0]), odd_a = d[3] - kBB * d[1];
    const Vec even_b = kB * (d[2] - kAA * d[0]), odd_b = d[3] - kAA * d[1];
    v[0] = odd_a + even_a;
    v[1] = odd_a - even_a;
    v[2] = odd_b + even_b;
    v[3] = odd_b - even_b;
    v[4] = d[4] - (kAA + kBB) * d[2] + kAA * kBB * d[0];
  }

  static void of_taps(const Vec* g, Vec* u) {
    const Vec even_a = kAtA * g[0], odd_a = (kAtA * kA) * g[1];
    const Vec even_b = kAtB * g[0], odd_b = (kAtB * kB) * g[1];
    u[0] = odd_a + even_a;
    u[1] = odd_a - even_a;
    u[2] = odd_b + even_b;
    u[3] = odd_b - even_b;
    u[4] = g[1];
  }

  static void to_result(const Vec* m, Vec* y) {
    const Vec even_a = m[0] + m[1], odd_a = m[0] - m[1];
    const Vec even_b = m[2] + m[3], odd_b = m[2] - m[3];
    y[0] = even_a + even_b;
    y[1] = kA * odd_a + kB * odd_b;
    y[2] = kAA * even_a + kBB * even_b;
    y[3] = (kA * kAA) * odd_a + (kB * kBB) * odd_b + m[4];
  }

  static void of_gradient(const Vec* y, Vec* m) {
    const Vec even_a = y[0] + kAA * y[2], odd_a = kA * y[1] + (kA * kAA) * y[3];
    const Vec even_b = y[0] + kBB * y[2], odd_b = kB * y[1] + (kB * kBB) * y[3];
    m[0] = even_a + odd_a;
    m[1] = even_a - odd_a;
    m[2] = even_b + odd_b;
    m[3] = even_b - odd_b;
    m[4] = y[3];
  }

  static void to_taps(const Vec* u, Vec* g) {
    g[0] = kAtA * (u[0] - u[1]) + kAtB * (u[2] - u[3]);
    g[1] = (kAtA * kA) * (u[0] + u[1]) + (kAtB * kB) * (u[2] + u[3]) + u[4];
  }
};

// A single tap needs no transform.
template <>
struct Transform<1> {
  static constexpr int64_t kSide = 4;

  static void same(const Vec* x, Vec* y) {
    for (int64_t i = 0; i < kSide; ++i) y[i] = x[i];
  }
  static void of_input(const Vec* d, Vec* v) { same(d, v); }
  static void of_taps(const Vec* g, Vec* u) {
    for (int64_t i = 0; i < kSide; ++i) u[i] = g[0];
  }
  static void to_result(const Vec* m, Vec* y) { same(m, y); }
  static void of_gradient(const Vec* y, Vec* m) { same(y, m); }
  static void to_taps(const Vec* u, Vec* g) { g[0] = (u[0] + u[1]) + (u[2] + u[3]); }
};

// A transform of From to To values along one axis.
template <int64_t From, int64_t To, void (*Apply)(const Vec*, Vec*)>
struct Axis {
  static constexpr int64_t kFrom = From, kTo = To;
  static void apply(const Vec* x, Vec* y) { Apply(x, y); }
};
template <int64_t N>
using InputAxis = Axis<Transform<N>::kSide, Transform<N>::kSide, Transform<N>::of_input>;
template <int64_t N>
using ResultAxis = Axis<Transform<N>::kSide, kTileSide, Transform<N>::to_result>;
template <int64_t N>
using GradientAxis = Axis<kTileSide, Transform<N>::kSide, Transform<N>::of_gradient>;
template <int64_t N>
using TapsAxis = Axis<N, Transform<N>::kSide, Transform<N>::of_taps>;
template <int64_t N>
using TapsGradientAxis = Axis<Transform<N>::kSide, N, Transform<N>::to_taps>;

// Applies a transform along each axis: x [Y::kFrom][X::kFrom] -> y [Y::kTo][X::kTo].
template <class Y, class X>
inline void both_axes(const Vec* x, Vec* y) {
  Vec half[Y::kTo * X::kFrom];
  for (int64_t j = 0; j < X::kFrom; ++j) {
    Vec column[Y::kFrom], out[Y::kTo];
    for (int64_t i = 0; i < Y::kFrom; ++i) column[i] = x[i * X::kFrom + j];
    Y::apply(column, out);
    for (int64_t i = 0; i < Y::kTo; ++i) half[i * X::kFrom + j] = out[i];
  }
  for (int64_t i = 0; i < Y::kTo; ++i) X::apply(half + i * X::kFrom, y + i * X::kTo);
}

// Calls visit.operator()<TapsY, TapsX>() for the taps.
template <class Visit>
inline void with_taps(TapCounts taps, const Visit& visit) {
  if (taps.y == 3) {
    visit.template operator()<3, 3>();
  } else if (taps.y == 2 && taps.x == 2) {
    visit.template operator()<2, 2>();
  } else if (taps.y == 2) {
    visit.template operator()<2, 1>();
  } else if (taps.x == 2) {
    visit.template operator()<1, 2>();
  } else {
    visit.template operator()<1, 1>();
  }
}

// Neighbouring tiles of one row of tiles: `count` tiles from (tile_y, tile_x) on, the first of
// which is tile `first` of a span.
struct Run {
  int64_t image, tile_y, tile_x;
  int64_t first, count;
};

// Calls visit(run) for the runs of the span.
template <class Visit>
inline void for_each_run(const TileGrid& grid, Span tiles, const Visit& visit) {
  for (int64_t t = tiles.begin; t < tiles.end;) {
    const int64_t row = t / grid.tiles_x, tile_x = t % grid.tiles_x;
    const int64_t left = grid.tiles_x - tile_x, wanted = tiles.end - t;
    const int64_t count = left < wanted ? left : wanted;
    visit(Run{row / grid.tiles_y, row % grid.tiles_y, tile_x, t - tiles.begin, count});
    t += count;
  }
}

// Copies pixels of one panel of channels between pictures and `region` [rows][columns][32], which
// lies on a lattice: region pixel (i, j) is the picture's pixel (step * i + y, step * j + x).
struct Region {
  int64_t rows, columns;
  int64_t y, x, step;
  int64_t first_channel;
};
void read_region(const PictureView& x, int64_t image, const Region& region, float* to);
// Writes the pixels that lie inside the picture.
void write_region(const float* from, const Region& region, const PictureView& y, int64_t image);

}  // namespace gantrain::GANTRAIN_ISA
