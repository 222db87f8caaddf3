// SPDX-License-Identifier: Apache-2.0
#include "cpu_kernels/winograd.h"

#include "cpu_kernels/winograd_kernels.h"
#include "cpu_kernels/winograd_transform.h"

namespace gantrain::GANTRAIN_ISA {

namespace {

template <class Y, class X>
void gather_tiles(const PictureView& x,
                  const Lattice& at,
                  const TileGrid& grid,
                  Span tiles,
                  int64_t panel,
                  float* v,
                  float* scratch) {
  const int64_t stride = point_stride(tiles.end - tiles.begin);
  for_each_run(grid, tiles, [&](const Run& run) {
    const Region region{Y::kFrom,
                        kTileSide * (run.count - 1) + X::kFrom,
                        at.y + at.step * kTileSide * run.tile_y,
                        at.x + at.step * kTileSide * run.tile_x,
                        at.step,
                        panel * kPanel};
    read_region(x, run.image, region, scratch);
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

void gather(const PictureView& x,
            const Lattice& at,
            TapCounts taps,
            const TileGrid& grid,
            Span tiles,
            int64_t panel,
            float* v,
            float* scratch) {
  with_taps(taps, [&]<int64_t Y, int64_t X>() {
    gather_tiles<InputAxis<Y>, InputAxis<X>>(x, at, grid, tiles, panel, v, scratch);
  });
}

void gather_gradient(const PictureView& dy,
                     const Lattice& at,
                     TapCounts taps,
                     const TileGrid& grid,
                     Span tiles,
                     int64_t panel,
                     float* m,
                     float* scratch) {
  with_taps(taps, [&]<int64_t Y, int64_t X>() {
    gather_tiles<GradientAxis<Y>, GradientAxis<X>>(dy, at, grid, tiles, panel, m, scratch);
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

void multiply(const float* v,
              int64_t panels,
              int64_t rows,
              int64_t first,
              const float* u,
              TapCounts taps,
              const TileGrid& grid,
              Span tiles,
              bool add,
              float* pixels,
              float* scratch) {
  const int64_t channels = panels * kPanel;
  for (int64_t p = 0; p < taps.points(); ++p)
    product_of_tiles(v + p * point_stride(rows) + (tiles.begin - first) * kPanel,
                     taps.points() * point_stride(rows),
                     point_stride(rows),
                     panels,
                     tiles.end - tiles.begin,
                     u + p * point_stride(channels),
                     point_stride(channels),
                     scratch + p * point_stride(kTileBlock));
  with_taps(taps, [&]<int64_t Y, int64_t X>() {
    transform_back<ResultAxis<Y>, ResultAxis<X>>(scratch, grid, tiles, add, pixels);
  });
}

void write(const float* pixels,
           const PictureView& y,
           const Lattice& at,
           const TileGrid& grid,
           Span tiles,
           int64_t panel) {
  for_each_run(grid, tiles, [&](const Run& run) {
    const Region region{kTileSide,
                        kTileSide * run.count,
                        at.y + at.step * kTileSide * run.tile_y,
                        at.x + at.step * kTileSide * run.tile_x,
                        at.step,
                        panel * kPanel};
    write_region(pixels + run.first * kTileSide * kTileSide * kPanel, region, y, run.image);
  });
}

void accumulate(const float* m,
                const float* v,
                int64_t rows,
                TapCounts taps,
                int64_t point,
                int64_t panel_of_rows,
                int64_t all_rows,
                float* du) {
  product_over_tiles(m + point * point_stride(rows),
                     taps.points() * point_stride(rows),
                     v + point * point_stride(rows),
                     rows,
                     du + point * point_stride(all_rows) + panel_of_rows * kPanel * kPanel);
}

}  // namespace

WinogradKernels winograd_kernels() {
  return {gather, gather_gradient, multiply, write, accumulate, transform_kernel, kernel_gradient};
}

}  // namespace gantrain::GANTRAIN_ISA
