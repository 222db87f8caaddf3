// SPDX-License-Identifier: Apache-2.0
#include "ops/convolution/winograd_cpu.h"

#include "ops/convolution/winograd_transform_cpu.h"
#include "ops/vector/vector.h"

namespace gantrain::GANTRAIN_ISA {

// The matrix products of the Winograd convolution, with all sums of a block in registers.

namespace {

// Sums of kRows rows times kColumns vectors stay in registers: 16 of AVX-512's 32, 8 of the 16 that
// older instruction sets have.
constexpr int64_t kRows = kLanes == 16 ? 8 : 4;
constexpr int64_t kColumns = 2;
constexpr int64_t kWidth = kColumns * kLanes;

constexpr int64_t kLine = 16;  // floats that come into a cache together

constexpr int kSecondCache = 2;

// What the next products read: block() asks for it a line at a time, because the outer caches' way
// is long and their streams here are too short for a processor to foresee.
struct Ahead {
  const float *left, *right;        // what follows a and b
  int64_t left_panel, right_panel;  // floats from a panel to the next
  int64_t right_lines;              // lines of each panel of `right`, at most `length`
};

// out[row][column] (+)= sum over k of a[row * RowStride + k * KStride] b[k * 32 + column], for
// `panels` times `length` values of k; a's panels lie `panel_stride` apart, b's follow each other.
template <int64_t Rows, int64_t RowStride, int64_t KStride, bool Add>
inline void block(const float* a,
                  int64_t panel_stride,
                  int64_t panels,
                  int64_t length,
                  const float* b,
                  float* out,
                  const Ahead& ahead) {
  Vec sum[Rows][kColumns];
  for (int64_t r = 0; r < Rows; ++r) {
    for (int64_t c = 0; c < kColumns; ++c)
      sum[r][c] = Add ? load(out + r * kPanel + c * kLanes) : Vec{};
  }
  for (int64_t panel = 0; panel < panels; ++panel) {
    const float* from = a + panel * panel_stride;
    const float* left_ahead = ahead.left + panel * ahead.left_panel;
    const float* right_ahead = ahead.right + panel * ahead.right_panel;
    for (int64_t k = 0; k < length; ++k) {
      if (k % 2 == 0) __builtin_prefetch(left_ahead + k / 2 * kLine, 0, kSecondCache);
      if (k < ahead.right_lines) __builtin_prefetch(right_ahead + k * kLine, 0, kSecondCache);
      Vec right[kColumns];
      for (int64_t c = 0; c < kColumns; ++c) right[c] = load(b + c * kLanes);
      for (int64_t r = 0; r < Rows; ++r) {
        const Vec left = all(from[r * RowStride]);
        for (int64_t c = 0; c < kColumns; ++c) sum[r][c] += left * right[c];
      }
      from += KStride;
      b += kPanel;
    }
  }
  for (int64_t r = 0; r < Rows; ++r) {
    for (int64_t c = 0; c < kColumns; ++c) store(out + r * kPanel + c * kLanes, sum[r][c]);
  }
}

}  // namespace

// m[tile][32] = sum over channels of v[panel][tile][32] u[channel][32], for one point. v's panels
// lie `panel_stride` floats apart. `next_v` and `next_u` are the distances to what the next call
// reads, which comes into the caches meanwhile; there may be nothing.
[[gnu::noinline]] void product_of_tiles(const float* v,
                                        int64_t panel_stride,
                                        int64_t next_v,
                                        int64_t panels,
                                        int64_t tiles,
                                        const float* u,
                                        int64_t next_u,
                                        float* m) {
  constexpr int64_t kSquare = kPanel * kPanel;
  const int64_t blocks = tiles < kRows ? 1 : tiles / kRows;
  const int64_t share = blocks == 1 ? kPanel : kSquare / kLine / blocks;
  const auto some = [&]<bool Add>(int64_t first, int64_t count) {
    const float *left = v + first * panel_stride, *right = u + first * kSquare;
    for (int64_t c = 0; c < kPanel; c += kWidth) {
      int64_t t = 0;
      const auto rows = [&]<int64_t Rows>() {
        const Ahead ahead{left + t * kPanel + next_v,
                          right + next_u + t / kRows * share * kLine,
                          panel_stride,
                          kSquare,
                          share};
        block<Rows, kPanel, 1, Add>(
            left + t * kPanel, panel_stride, count, kPanel, right + c, m + t * kPanel + c, ahead);
        t += Rows;
      };
      while (t + kRows <= tiles) rows.template operator()<kRows>();
      while (t < tiles) rows.template operator()<1>();
    }
  };
  // As many panels of u at a time as stay in the first cache while all tiles pass by.
  constexpr int64_t kTogether = 4;
  for (int64_t first = 0; first < panels; first += kTogether) {
    const int64_t count = panels - first < kTogether ? panels - first : kTogether;
    if (first == 0) {
      some.template operator()<false>(first, count);
    } else {
      some.template operator()<true>(first, count);
    }
  }
}

// du[row][32] += sum over tiles of m[tile][row] v[tile][32], for one point and 32 rows. The next
// call's rows lie `next_m` floats behind these, and its du behind this one.
[[gnu::noinline]] void product_over_tiles(
    const float* m, int64_t next_m, const float* v, int64_t tiles, float* du) {
  for (int64_t c = 0; c < kPanel; c += kWidth) {
    for (int64_t r = 0; r < kPanel; r += kRows) {
      const Ahead ahead{m + next_m + r / kRows * (tiles / 2) * kLine,
                        du + (kPanel + r) * kPanel,
                        0,
                        0,
                        kRows * kPanel / kLine};
      block<kRows, 1, kPanel, true>(m + r, 0, 1, tiles, v + c, du + r * kPanel + c, ahead);
    }
  }
}

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

void transform_kernel(const KernelPart& part, int64_t first_row, float* u) {
  const KernelView& w = part.w;
  with_taps(part.taps, [&]<int64_t Y, int64_t X>() {
    constexpr int64_t kPoints = Transform<Y>::kSide * Transform<X>::kSide;
    for (int64_t k = 0; k < kPanel; ++k) {
      const int64_t row = part.panel_of_rows * kPanel + k;
      for (int64_t c = 0; c < kPanel; c += kLanes) {
        const int64_t column = part.panel * kPanel + c;
        const int64_t lanes = row < w.rows ? lanes_from(column, w.columns) : 0;
        Vec values[kMostTaps], g[Y * X], points[kPoints];
        read_taps(w, w.data + row * w.row + column * w.column, lanes, values);
        for_each_tap<Y, X>(w, part.choice, [&](int64_t t, int64_t place) { g[t] = values[place]; });
        both_axes<TapsAxis<Y>, TapsAxis<X>>(g, points);
        float* to = u + (first_row + k) * kPanel + c;
        for (int64_t p = 0; p < kPoints; ++p)
          store(to + p * point_stride(part.all_rows), points[p]);
      }
    }
  });
}

void kernel_gradient(const float* du, const KernelPart& part) {
  const KernelView& w = part.w;
  const int64_t first_row = part.panel_of_rows * kPanel;
  with_taps(part.taps, [&]<int64_t Y, int64_t X>() {
    constexpr int64_t kPoints = Transform<Y>::kSide * Transform<X>::kSide;
    for (int64_t row = first_row; row < first_row + kPanel; ++row) {
      if (row >= w.rows) break;
      for (int64_t c = 0; c < kPanel; c += kLanes) {
        const int64_t column = part.panel * kPanel + c, lanes = lanes_from(column, w.columns);
        const float* from = du + row * kPanel + c;
        Vec points[kPoints], g[Y * X];
        for (int64_t p = 0; p < kPoints; ++p)
          points[p] = load(from + p * point_stride(part.all_rows));
        both_axes<TapsGradientAxis<Y>, TapsGradientAxis<X>>(points, g);
        Vec values[kMostTaps] = {};
        uint32_t chosen = 0;
        for_each_tap<Y, X>(w, part.choice, [&](int64_t t, int64_t place) {
          values[place] = g[t];
          chosen |= 1U << place;
        });
        write_taps(w, values, chosen, lanes, w.data + row * w.row + column * w.column);
      }
    }
  });
}

namespace {

template <class Y, class X>
void gather_tiles(const PictureTiles& x, float* v, float* scratch) {
  const int64_t stride = point_stride(x.tiles.end - x.tiles.begin);
  const Lattice& at = x.at;
  for_each_run(x.grid, x.tiles, [&](const Run& run) {
    const Region region{Y::kFrom,
                        kTileSide * (run.count - 1) + X::kFrom,
                        at.y + at.step * kTileSide * run.tile_y,
                        at.x + at.step * kTileSide * run.tile_x,
                        at.step,
                        x.panel * kPanel};
    read_region(x.picture, run.image, region, scratch);
    for (int64_t t = 0; t < run.count; ++t) {
      const float* corner = scratch + t * kTileSide * kPanel;
      float* to = v + (run.first + t) * kPanel;
      for (int64_t c = 0; c < kPanel; c += kLanes) {
        Vec pixels[Y::kFrom * X::kFrom], points[Y::kTo * X::kTo];
        for (int64_t i = 0; i < Y::kFrom; ++i) {
          for (int64_t j = 0; j < X::kFrom; ++j)
            pixels[i * X::kFrom + j] = load(corner + (i * region.columns + j) * kPanel + c);
        }
        both_axes<Y, X>(pixels, points);
        for (int64_t p = 0; p < Y::kTo * X::kTo; ++p) store(to + p * stride + c, points[p]);
      }
    }
  });
}

void gather(const PictureTiles& x, TapCounts taps, float* v, float* scratch) {
  with_taps(taps, [&]<int64_t Y, int64_t X>() {
    gather_tiles<InputAxis<Y>, InputAxis<X>>(x, v, scratch);
  });
}

void gather_gradient(const PictureTiles& dy, TapCounts taps, float* m, float* scratch) {
  with_taps(taps, [&]<int64_t Y, int64_t X>() {
    gather_tiles<GradientAxis<Y>, GradientAxis<X>>(dy, m, scratch);
  });
}

// The pixels of a run of tiles lie [4][4 * count][32] from its first tile on.
template <class Y, class X>
void transform_back(const float* m, const TileGrid& grid, Span tiles, bool add, float* pixels) {
  const int64_t stride = point_stride(kTileBlock);
  for_each_run(grid, tiles, [&](const Run& run) {
    float* region = pixels + run.first * kTileSide * kTileSide * kPanel;
    const int64_t columns = kTileSide * run.count;
    for (int64_t t = 0; t < run.count; ++t) {
      for (int64_t c = 0; c < kPanel; c += kLanes) {
        Vec points[Y::kFrom * X::kFrom], results[kTileSide * kTileSide];
        for (int64_t p = 0; p < Y::kFrom * X::kFrom; ++p)
          points[p] = load(m + p * stride + (run.first + t) * kPanel + c);
        both_axes<Y, X>(points, results);
        for (int64_t k = 0; k < kTileSide * kTileSide; ++k) {
          const int64_t i = k / kTileSide, j = t * kTileSide + k % kTileSide;
          float* to = region + (i * columns + j) * kPanel + c;
          store(to, add ? load(to) + results[k] : results[k]);
        }
      }
    }
  });
}

void multiply(
    const TileProducts& how, const float* v, const float* u, bool add, float* pixels, float* m) {
  const int64_t points = how.taps.points(), of_v = point_stride(how.rows);
  const int64_t of_u = point_stride(how.panels * kPanel);
  for (int64_t p = 0; p < points; ++p)
    product_of_tiles(v + p * of_v + (how.tiles.begin - how.first) * kPanel,
                     points * of_v,
                     of_v,
                     how.panels,
                     how.tiles.end - how.tiles.begin,
                     u + p * of_u,
                     of_u,
                     m + p * point_stride(kTileBlock));
  with_taps(how.taps, [&]<int64_t Y, int64_t X>() {
    transform_back<ResultAxis<Y>, ResultAxis<X>>(m, how.grid, how.tiles, add, pixels);
  });
}

void write(const float* pixels, const PictureTiles& y) {
  const Lattice& at = y.at;
  for_each_run(y.grid, y.tiles, [&](const Run& run) {
    const Region region{kTileSide,
                        kTileSide * run.count,
                        at.y + at.step * kTileSide * run.tile_y,
                        at.x + at.step * kTileSide * run.tile_x,
                        at.step,
                        y.panel * kPanel};
    write_region(pixels + run.first * kTileSide * kTileSide * kPanel, region, y.picture, run.image);
  });
}

void accumulate(const PointProducts& how, const float* m, const float* v, float* du) {
  const int64_t stride = point_stride(how.tiles);
  product_over_tiles(
      m + how.point * stride,
      how.taps.points() * stride,
      v + how.point * stride,
      how.tiles,
      du + how.point * point_stride(how.all_rows) + how.panel_of_rows * kPanel * kPanel);
}

}  // namespace

WinogradKernels winograd_kernels() {
  return {gather, gather_gradient, multiply, write, accumulate, transform_kernel, kernel_gradient};
}

}  // namespace gantrain::GANTRAIN_ISA
