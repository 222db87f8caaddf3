// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Convolutions by minimal filtering (Winograd 1980; Lavin & Gray, CVPR 2016). Along each axis a
// tile of four results of a correlation with 3, 2 or 1 taps is computed from 6, 5 or 4 input values
// with as many products, instead of 12, 8 or 4. The steps are: gather (tiles of the input,
// transformed), multiply (a matrix product for each point of the transform, transformed back) and
// write. The interpolation points are chosen for float32's sake: 0, +-5/8, +-3/2 and infinity for 3
// taps, and +-3/8, +-5/4 and infinity for 2 taps.
//
// Transformed arrays lie in panels of 32 channels: [channels / 32][point][row][32], where a row is
// a tile, or the other channel of a weight. Channels beyond the last are zero.
namespace gantrain {

constexpr int64_t kPanel = 32;      // channels side by side in transformed arrays
constexpr int64_t kTileSide = 4;    // results of a tile along each axis
constexpr int64_t kTileBlock = 64;  // tiles that are multiplied together

// The taps of a correlation along each axis, 3 and 3, or 1 or 2 for each.
struct TapCounts {
  int64_t y, x;
  constexpr int64_t points() const { return (kTileSide + y - 1) * (kTileSide + x - 1); }
  bool operator==(const TapCounts&) const = default;
};

constexpr int64_t panels_of(int64_t channels) { return (channels + kPanel - 1) / kPanel; }
// Floats from one point of a panel to the next. It is no power of two, because then the points of a
// tile would compete for the same lines of a cache.
constexpr int64_t point_stride(int64_t rows) { return (rows + 1) * kPanel; }

// Pictures [images, channels, height, width] in memory: (n, c, y, x) lies at data[n * image + c *
// channel + y * row + x * column]. channel or column is 1.
struct PictureView {
  float* data;
  int64_t images, channels, height, width;
  int64_t image, channel, row, column;  // strides in floats
};

// The tiles of a result, counted through all images row by row.
struct TileGrid {
  int64_t tiles_y, tiles_x;
  int64_t tiles;  // of all images
};

// Where a grid's pixels lie in a picture: pixel (i, j) at row step * i + y, column step * j + x.
// Outside of the picture there are zeros.
struct Lattice {
  int64_t step, y, x;
};

// A range of work.
struct Span {
  int64_t begin, end;
};

// A kernel in memory: tap (ky, kx) from row channel r to column channel c lies at data[r * row + c
// * column + ky * side + kx] for ky, kx < side, which is at most 4.
struct KernelView {
  float* data;
  int64_t rows, columns;
  int64_t row, column;  // strides in floats
  int64_t side;
};

// Which taps of a kernel take part: tap t of the correlation is tap step * t + first of the kernel,
// and with `flipped` tap step * (taps - 1 - t) + first.
struct TapChoice {
  int64_t step, first_y, first_x;
  bool flipped;
};

// Some tiles of a grid, of one panel of a picture's channels.
struct PictureTiles {
  PictureView picture;
  Lattice at;
  TileGrid grid;
  Span tiles;
  int64_t panel;
};

// The chosen taps of 32 rows of a kernel, those of `panel_of_rows`, and of one panel of columns.
// Transformed they have `all_rows` rows, more than these.
struct KernelPart {
  KernelView w;
  TapChoice choice;
  TapCounts taps;
  int64_t panel_of_rows, panel;
  int64_t all_rows;
};

// Products of transformed tiles, v [panels][point][rows][32], whose first row is tile `first`.
struct TileProducts {
  int64_t panels, rows, first;
  TapCounts taps;
  TileGrid grid;
  Span tiles;
};

// One point of the products of a panel of rows with a panel of columns, summed over `tiles`.
struct PointProducts {
  int64_t tiles;
  TapCounts taps;
  int64_t point, panel_of_rows, all_rows;
};

struct WinogradKernels {
  // Transforms the input tiles into v [point][tile - tiles.begin][32]. `scratch` holds
  // gather_scratch() floats.
  void (*gather)(const PictureTiles& x, TapCounts taps, float* v, float* scratch);

  // The same for tiles of a result's gradient: the adjoint of multiply()'s transform back.
  void (*gather_gradient)(const PictureTiles& dy, TapCounts taps, float* m, float* scratch);

  // Multiplies tiles with one panel of a transformed kernel, u [point][panels * 32][32], and
  // transforms the products back into `pixels` (kPixelScratch floats), to which it adds with `add`.
  // `m` holds multiply_scratch() floats.
  void (*multiply)(
      const TileProducts& how, const float* v, const float* u, bool add, float* pixels, float* m);

  // Writes the pixels of a block of tiles into y, where they lie inside it.
  void (*write)(const float* pixels, const PictureTiles& y);

  // du [point][all_rows][32] += sum over tiles of m[.][tile][row] v[.][tile][32].
  void (*accumulate)(const PointProducts& how, const float* m, const float* v, float* du);

  // Transforms the part: u [point][all_rows][32], of which it writes the rows from first_row on.
  void (*transform_kernel)(const KernelPart& part, int64_t first_row, float* u);

  // The adjoint of transform_kernel() for the kernel's own rows: writes the gradient of the chosen
  // taps into the part.
  void (*kernel_gradient)(const float* du, const KernelPart& part);
};

// Sizes of scratch memory in floats.
constexpr int64_t gather_scratch(const TileGrid& grid) {
  return 6 * (kTileSide * grid.tiles_x + 2) * kPanel;
}
constexpr int64_t multiply_scratch(TapCounts taps) {
  return taps.points() * point_stride(kTileBlock);
}
constexpr int64_t kPixelScratch = kTileBlock * kTileSide * kTileSide * kPanel;

}  // namespace gantrain
