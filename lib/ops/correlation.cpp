// SPDX-License-Identifier: Apache-2.0
#include "ops/correlation.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "core/parallel.h"
#include "core/torch.h"
#include "cpu_kernels/kernels.h"

namespace gantrain {

using at::Tensor;

namespace {

const WinogradKernels& kernels() { return cpu_kernels().winograd; }

Tensor scratch(int64_t floats) { return at::empty({floats}, at::kFloat); }

// Shares the indices [0, count) out among threads.
template <class Each>
void for_all(int64_t count, const Each& each) {
  parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) each(i);
  });
}

// Memory that a thread uses in one piece of work.
class ThreadScratch {
 public:
  explicit ThreadScratch(int64_t floats)
      : each_(floats), all_(scratch(floats * at::get_num_threads())) {}
  float* here() { return all_.data_ptr<float>() + each_ * at::get_thread_num(); }

 private:
  int64_t each_;
  Tensor all_;
};

// One group of a correlation: its kernel and the sizes of its transformed arrays.
struct Factor {
  Factor(const CorrelationGroup& g, const KernelView& w)
      : group(g),
        panels(panels_of(w.rows)),
        all_panels(panels * static_cast<int64_t>(g.parts.size())),
        stride(g.taps.points() * point_stride(all_panels * kPanel)) {}

  // Transforms one panel of columns of the kernel: u [point][rows of all parts][32].
  void transform(const KernelView& w, int64_t column, float* u) const {
    for (int64_t i = 0; i < all_panels; ++i)
      kernels().transform_kernel(w,
                                 group.parts[i / panels].choice,
                                 group.taps,
                                 i % panels,
                                 column,
                                 i * kPanel,
                                 all_panels * kPanel,
                                 u);
  }

  const CorrelationGroup& group;
  int64_t panels;      // of the rows of one part
  int64_t all_panels;  // of all parts
  int64_t stride;      // floats of a transformed panel of columns
};

// Memory for the transformed tiles of all channels and parts: [panels][point][tile][32].
Tensor tiles_memory(TapCounts taps, int64_t panels, int64_t most_tiles) {
  return scratch(panels * taps.points() * point_stride(most_tiles));
}

// Tiles that are transformed before they are multiplied: a multiple of kTileBlock, as many as fill
// about 4 MiB, which stay in the outer cache beside what else is in it.
int64_t tiles_together(const TileGrid& grid, TapCounts taps, int64_t panels) {
  constexpr int64_t kBytes = 4 << 20;
  const int64_t block = taps.points() * panels * kPanel * kTileBlock * sizeof(float);
  const int64_t blocks = std::max<int64_t>(kBytes / block, at::get_num_threads());
  return std::min(blocks * kTileBlock, divided_up(grid.tiles, kTileBlock) * kTileBlock);
}

// A correlation y = sum over groups and parts of x with w, at the lattice `to` of y.
class Correlation {
 public:
  Correlation(const PictureView& x,
              const std::vector<CorrelationGroup>& groups,
              const KernelView& w,
              const PictureView& y,
              const Lattice& to,
              const TileGrid& grid)
      : x_(x), w_(w), y_(y), to_(to), grid_(grid), together_(grid.tiles) {
    for (const CorrelationGroup& group : groups) {
      const Factor& factor = factors_.emplace_back(group, w);
      together_ = std::min(together_, tiles_together(grid, group.taps, factor.all_panels));
      products_ = std::max(products_, multiply_scratch(group.taps));
      kernel_ += factor.stride;
    }
    for (const Factor& factor : factors_)
      tiles_.push_back(tiles_memory(factor.group.taps, factor.all_panels, together_));
  }

  void run() {
    const int64_t panels = panels_of(y_.channels), gathering = gather_scratch(grid_);
    if (together_ >= grid_.tiles) {
      // Each panel of the kernel is transformed where it is used, and does not leave the cache.
      ThreadScratch memory(std::max(gathering, kPixelScratch + products_ + kernel_));
      const Span all{0, grid_.tiles};
      gather(all, memory);
      for_all(panels, [&](int64_t panel) {
        float* u = memory.here() + kPixelScratch + products_;
        transform(panel, u);
        for (int64_t t = 0; t < grid_.tiles; t += kTileBlock)
          multiply(all, t, u, panel, memory.here());
      });
      return;
    }
    const Tensor kernel = scratch(panels * kernel_);
    float* u = kernel.data_ptr<float>();
    for_all(panels, [&](int64_t panel) { transform(panel, u + panel * kernel_); });
    ThreadScratch memory(std::max(gathering, kPixelScratch + products_));
    for (int64_t begin = 0; begin < grid_.tiles; begin += together_) {
      const Span turn{begin, std::min(grid_.tiles, begin + together_)};
      gather(turn, memory);
      const int64_t blocks = divided_up(turn.end - turn.begin, kTileBlock);
      for_all(panels * blocks, [&](int64_t i) {
        const int64_t panel = i / blocks, first = turn.begin + i % blocks * kTileBlock;
        multiply(turn, first, u + panel * kernel_, panel, memory.here());
      });
    }
  }

 private:
  // Transforms a panel of columns for all groups, one after the other.
  void transform(int64_t panel, float* u) const {
    for (const Factor& factor : factors_) {
      factor.transform(w_, panel, u);
      u += factor.stride;
    }
  }

  void gather(Span turn, ThreadScratch& memory) const {
    for (size_t g = 0; g < factors_.size(); ++g) {
      const Factor& factor = factors_[g];
      const int64_t each = factor.group.taps.points() * point_stride(turn.end - turn.begin);
      for_all(factor.all_panels, [&](int64_t i) {
        kernels().gather(x_,
                         factor.group.parts[i / factor.panels].from,
                         factor.group.taps,
                         grid_,
                         turn,
                         i % factor.panels,
                         tiles_[g].data_ptr<float>() + i * each,
                         memory.here());
      });
    }
  }

  // Multiplies the block of tiles from `first` on and writes one panel of y.
  void multiply(Span turn, int64_t first, const float* u, int64_t panel, float* pixels) const {
    const Span block{first, std::min(turn.end, first + kTileBlock)};
    for (size_t g = 0; g < factors_.size(); ++g) {
      kernels().multiply(tiles_[g].data_ptr<float>(),
                         factors_[g].all_panels,
                         turn.end - turn.begin,
                         turn.begin,
                         u,
                         factors_[g].group.taps,
                         grid_,
                         block,
                         /*add=*/g > 0,
                         pixels,
                         pixels + kPixelScratch);
      u += factors_[g].stride;
    }
    kernels().write(pixels, y_, to_, grid_, block, panel);
  }

  PictureView x_;
  KernelView w_;
  PictureView y_;
  Lattice to_;
  TileGrid grid_;
  std::vector<Factor> factors_;
  std::vector<Tensor> tiles_;  // the present turn's, transformed, for each group
  int64_t together_;           // tiles of a turn
  int64_t products_ = 0;       // floats of the products of a block of tiles
  int64_t kernel_ = 0;         // floats of a panel of columns for all groups
};

// dw = the gradient by the kernel of such a correlation, for one group; dw's rows are dy's
// channels.
class KernelGradient {
 public:
  KernelGradient(const PictureView& x,
                 const CorrelationGroup& group,
                 const PictureView& dy,
                 const TileGrid& grid,
                 const KernelView& dw)
      : x_(x),
        group_(group),
        dy_(dy),
        grid_(grid),
        dw_(dw),
        together_(std::min(kTogether, grid.tiles)),
        panels_(panels_of(x.channels)),
        columns_(panels_ * static_cast<int64_t>(group.parts.size())),
        rows_(panels_of(dy.channels)),
        stride_(group.taps.points() * point_stride(rows_ * kPanel)),
        v_(tiles_memory(group.taps, columns_, together_)),
        m_(tiles_memory(group.taps, rows_, together_)) {}

  void run() {
    const bool once = together_ >= grid_.tiles;
    ThreadScratch memory(std::max(gather_scratch(grid_), once ? stride_ : 0));
    const int64_t points = group_.taps.points();
    if (once) {
      // The transformed gradient of a panel of columns does not leave the cache.
      gather({0, grid_.tiles}, memory);
      for_all(columns_, [&](int64_t column) {
        float* du = memory.here();
        std::fill(du, du + stride_, 0.0F);
        for (int64_t p = 0; p < points; ++p) accumulate(grid_.tiles, column, p, du);
        transform_back(column, du);
      });
      return;
    }
    const Tensor all = at::zeros({columns_ * stride_}, at::kFloat);
    float* du = all.data_ptr<float>();
    for (int64_t begin = 0; begin < grid_.tiles; begin += together_) {
      const Span turn{begin, std::min(grid_.tiles, begin + together_)};
      gather(turn, memory);
      for_all(columns_ * points, [&](int64_t i) {
        const int64_t column = i / points;
        accumulate(turn.end - turn.begin, column, i % points, du + column * stride_);
      });
    }
    for_all(columns_, [&](int64_t column) { transform_back(column, du + column * stride_); });
  }

 private:
  static constexpr int64_t kTogether = 2 * kTileBlock;  // tiles of a turn

  void gather(Span turn, ThreadScratch& memory) const {
    const int64_t each = group_.taps.points() * point_stride(turn.end - turn.begin);
    for_all(columns_ + rows_, [&](int64_t i) {
      if (i < columns_) {
        kernels().gather(x_,
                         group_.parts[i / panels_].from,
                         group_.taps,
                         grid_,
                         turn,
                         i % panels_,
                         v_.data_ptr<float>() + i * each,
                         memory.here());
      } else {
        const int64_t row = i - columns_;
        kernels().gather_gradient(dy_,
                                  {1, 0, 0},
                                  group_.taps,
                                  grid_,
                                  turn,
                                  row,
                                  m_.data_ptr<float>() + row * each,
                                  memory.here());
      }
    });
  }

  void accumulate(int64_t tiles, int64_t column, int64_t point, float* du) const {
    const int64_t each = group_.taps.points() * point_stride(tiles);
    for (int64_t row = 0; row < rows_; ++row)
      kernels().accumulate(m_.data_ptr<float>() + row * each,
                           v_.data_ptr<float>() + column * each,
                           tiles,
                           group_.taps,
                           point,
                           row,
                           rows_ * kPanel,
                           du);
  }

  void transform_back(int64_t column, const float* du) const {
    for (int64_t row = 0; row < rows_; ++row)
      kernels().kernel_gradient(du,
                                group_.parts[column / panels_].choice,
                                group_.taps,
                                row,
                                column % panels_,
                                rows_ * kPanel,
                                dw_);
  }

  PictureView x_;
  const CorrelationGroup& group_;
  PictureView dy_;
  TileGrid grid_;
  KernelView dw_;
  int64_t together_;          // tiles of a turn
  int64_t panels_, columns_;  // panels of x's channels; of those of all parts
  int64_t rows_;              // panels of dy's channels
  int64_t stride_;            // floats of the transformed gradient of a panel of columns
  Tensor v_, m_;              // the present turn's tiles of x and dy, transformed
};

}  // namespace

TileGrid tile_grid(int64_t images, int64_t height, int64_t width) {
  TileGrid grid{divided_up(height, kTileSide), divided_up(width, kTileSide), 0};
  grid.tiles = images * grid.tiles_y * grid.tiles_x;
  return grid;
}

void correlate(const PictureView& x,
               const std::vector<CorrelationGroup>& groups,
               const KernelView& w,
               const PictureView& y,
               const Lattice& to,
               const TileGrid& grid) {
  Correlation(x, groups, w, y, to, grid).run();
}

void correlate_gradient(const PictureView& x,
                        const CorrelationGroup& group,
                        const PictureView& dy,
                        const TileGrid& grid,
                        const KernelView& dw) {
  KernelGradient(x, group, dy, grid, dw).run();
}

}  // namespace gantrain
