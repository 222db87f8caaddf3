// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "core/torch.h"
#include "ops/convolution/convolution.h"
#include "ops/convolution/winograd_cpu.h"
#include "ops/vector/cpu_kernels.h"

namespace gantrain {

namespace {

// One correlation among those that a convolution consists of: where its input pixels lie, and which
// taps of the kernel it has.
struct CorrelationPart {
  Lattice from;
  TapChoice choice;
};
// Parts with the same numbers of taps, whose products are summed before they are transformed back.
struct CorrelationGroup {
  TapCounts taps;
  std::vector<CorrelationPart> parts;
};

// n / by, rounded up.
constexpr int64_t divided_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

// The tiles of so many pictures of height x width pixels.
TileGrid tile_grid(int64_t images, int64_t height, int64_t width) {
  TileGrid grid{divided_up(height, kTileSide), divided_up(width, kTileSide), 0};
  grid.tiles = images * grid.tiles_y * grid.tiles_x;
  return grid;
}

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
      kernels().transform_kernel(
          {w, group.parts[i / panels].choice, group.taps, i % panels, column, all_panels * kPanel},
          i * kPanel,
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

// Writes y = sum over groups and parts of the correlations of x with w (rows: x's channels,
// columns: y's), at the pixels of y that lie on the lattice `to`. The tiles of `grid` are shared
// out among LibTorch's threads.
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
        const Lattice& from = factor.group.parts[i / factor.panels].from;
        kernels().gather({x_, from, grid_, turn, i % factor.panels},
                         factor.group.taps,
                         tiles_[g].data_ptr<float>() + i * each,
                         memory.here());
      });
    }
  }

  // Multiplies the block of tiles from `first` on and writes one panel of y.
  void multiply(Span turn, int64_t first, const float* u, int64_t panel, float* pixels) const {
    const Span block{first, std::min(turn.end, first + kTileBlock)};
    for (size_t g = 0; g < factors_.size(); ++g) {
      const Factor& factor = factors_[g];
      const int64_t rows = turn.end - turn.begin;
      kernels().multiply({factor.all_panels, rows, turn.begin, factor.group.taps, grid_, block},
                         tiles_[g].data_ptr<float>(),
                         u,
                         /*add=*/g > 0,
                         pixels,
                         pixels + kPixelScratch);
      u += factor.stride;
    }
    kernels().write(pixels, {y_, to_, grid_, block, panel});
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

// Writes the gradient of such a sum with one group by its kernel, where dy is the gradient by the
// result: dw's rows are dy's channels, its columns x's. It writes the taps that the group chooses.
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
        kernels().gather({x_, group_.parts[i / panels_].from, grid_, turn, i % panels_},
                         group_.taps,
                         v_.data_ptr<float>() + i * each,
                         memory.here());
      } else {
        const int64_t row = i - columns_;
        kernels().gather_gradient({dy_, {1, 0, 0}, grid_, turn, row},
                                  group_.taps,
                                  m_.data_ptr<float>() + row * each,
                                  memory.here());
      }
    });
  }

  void accumulate(int64_t tiles, int64_t column, int64_t point, float* du) const {
    const int64_t each = group_.taps.points() * point_stride(tiles);
    for (int64_t row = 0; row < rows_; ++row)
      kernels().accumulate({tiles, group_.taps, point, row, rows_ * kPanel},
                           m_.data_ptr<float>() + row * each,
                           v_.data_ptr<float>() + column * each,
                           du);
  }

  void transform_back(int64_t column, const float* du) const {
    const TapChoice& choice = group_.parts[column / panels_].choice;
    for (int64_t row = 0; row < rows_; ++row)
      kernels().kernel_gradient(du,
                                {dw_, choice, group_.taps, row, column % panels_, rows_ * kPanel});
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

PictureView view(const Tensor& t) {
  return {t.data_ptr<float>(),
          t.size(0),
          t.size(1),
          t.size(2),
          t.size(3),
          t.stride(0),
          t.stride(1),
          t.stride(2),
          t.stride(3)};
}

// A contiguous kernel [O, I, k, k] from x to y, and from dy to dx.
KernelView from_inputs(const Tensor& w) {
  return {w.data_ptr<float>(), w.size(1), w.size(0), w.stride(1), w.stride(0), w.size(2)};
}
KernelView from_outputs(const Tensor& w) {
  return {w.data_ptr<float>(), w.size(0), w.size(1), w.stride(0), w.stride(1), w.size(2)};
}

// The form that results are written in: contiguous unless `like` is channels-last.
Tensor empty_like_layout(at::IntArrayRef sizes, const Tensor& like) {
  return at::empty(sizes, like.options().memory_format(like.suggest_memory_format()));
}
Tensor readable(const Tensor& t) { return t.contiguous(t.suggest_memory_format()); }

// With stride 2, tap k = 2 t + phase of the kernel meets input pixel 2 i + k - padding: the
// correlation of each phase of the padded input with the taps of that phase. Phases with as many
// taps along both axes form a group.
std::vector<CorrelationGroup> forward_groups(int64_t size, const ConvGeometry& how) {
  const int64_t p = how.padding;
  if (how.stride == 1) return {{{3, 3}, {{{1, -p, -p}, {1, 0, 0, false}}}}};
  std::vector<CorrelationGroup> groups;
  for (const int64_t y : {0, 1}) {
    for (const int64_t x : {0, 1}) {
      const TapCounts taps{divided_up(size - y, 2), divided_up(size - x, 2)};
      const CorrelationPart part{{2, y - p, x - p}, {2, y, x, false}};
      if (groups.empty() || !(groups.back().taps == taps)) {
        groups.push_back({taps, {part}});
      } else {
        groups.back().parts.push_back(part);
      }
    }
  }
  return groups;
}

// One phase of the input's gradient, along one axis: its pixels are 2 m + first, and with `taps`
// taps they meet the result's gradient from pixel m + origin on.
struct InputPhase {
  int64_t taps, first, origin;
};

InputPhase phase_along(int64_t phase, int64_t size, int64_t padding) {
  const int64_t shift = phase - padding;
  const int64_t first = ((shift % 2) + 2) % 2, taps = divided_up(size - phase, 2);
  return {taps, first, (first - shift) / 2 - (taps - 1)};
}

}  // namespace

bool winograd_fits(at::IntArrayRef x, at::IntArrayRef w, const ConvGeometry& how) {
  if (x.size() != 4 || w.size() != 4 || w[2] != w[3] || x[1] != w[1] || how.padding >= w[2])
    return false;
  const bool sizes = how.stride == 1 ? w[2] == 3 : how.stride == 2 && (w[2] == 3 || w[2] == 4);
  return sizes && x[0] > 0 && x[2] + 2 * how.padding >= w[2] && x[3] + 2 * how.padding >= w[2];
}

bool winograd_pays(at::IntArrayRef x, at::IntArrayRef w, const ConvGeometry& how) {
  if (!winograd_fits(x, w, how)) return false;
  constexpr int64_t kTiles = 24, kChannels = 24;
  const auto tiles = [&](int64_t n) { return (n + 2 * how.padding - w[2]) / how.stride + 1; };
  return tile_grid(x[0], tiles(x[2]), tiles(x[3])).tiles >= kTiles && w[0] >= kChannels &&
         w[1] >= kChannels;
}

Tensor winograd_forward(const Tensor& x_in, const Tensor& w_in, const ConvGeometry& how) {
  const Tensor x = readable(x_in), w = w_in.contiguous();
  const auto size = [&](int64_t n) { return (n + 2 * how.padding - w.size(2)) / how.stride + 1; };
  const int64_t height = size(x.size(2)), width = size(x.size(3));
  Tensor y = empty_like_layout({x.size(0), w.size(0), height, width}, x);
  const std::vector<CorrelationGroup> groups = forward_groups(w.size(2), how);
  const TileGrid grid = tile_grid(x.size(0), height, width);
  Correlation(view(x), groups, from_inputs(w), view(y), {1, 0, 0}, grid).run();
  return y;
}

Tensor winograd_input_gradient(const Tensor& dy_in,
                               const Tensor& w_in,
                               at::IntArrayRef x,
                               const ConvGeometry& how) {
  const Tensor dy = readable(dy_in), w = w_in.contiguous();
  Tensor dx = empty_like_layout(x, dy);
  if (how.stride == 1) {
    const int64_t origin = how.padding - 2;
    const std::vector<CorrelationGroup> groups = {
        {{3, 3}, {{{1, origin, origin}, {1, 0, 0, true}}}}};
    const TileGrid grid = tile_grid(x[0], x[2], x[3]);
    Correlation(view(dy), groups, from_outputs(w), view(dx), {1, 0, 0}, grid).run();
    return dx;
  }
  for (const int64_t py : {0, 1}) {
    for (const int64_t px : {0, 1}) {
      const InputPhase i = phase_along(py, w.size(2), how.padding);
      const InputPhase j = phase_along(px, w.size(3), how.padding);
      const std::vector<CorrelationGroup> groups = {
          {{i.taps, j.taps}, {{{1, i.origin, j.origin}, {2, py, px, true}}}}};
      const TileGrid grid =
          tile_grid(x[0], divided_up(x[2] - i.first, 2), divided_up(x[3] - j.first, 2));
      const Lattice to{2, i.first, j.first};
      Correlation(view(dy), groups, from_outputs(w), view(dx), to, grid).run();
    }
  }
  return dx;
}

Tensor winograd_weight_gradient(const Tensor& x_in,
                                const Tensor& dy_in,
                                at::IntArrayRef w,
                                const ConvGeometry& how) {
  const Tensor x = readable(x_in), dy = readable(dy_in);
  Tensor dw = at::empty(w, x.options());
  const TileGrid grid = tile_grid(x.size(0), dy.size(2), dy.size(3));
  for (const CorrelationGroup& group : forward_groups(w[2], how))
    KernelGradient(view(x), group, view(dy), grid, from_outputs(dw)).run();
  return dw;
}

}  // namespace gantrain
