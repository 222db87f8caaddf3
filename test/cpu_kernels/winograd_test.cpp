// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include "cpu_kernels/numbers.h"
#include "ops/convolution/winograd_cpu.h"
#include "ops/vector/cpu_kernels.h"
#include "support/catch.h"

using namespace gantrain;

namespace {

// Pictures and their numbers.
struct Pictures {
  std::vector<float> data;
  PictureView view;

  Pictures(int64_t n, int64_t c, int64_t h, int64_t w, bool channels_last, int seed)
      : data(normal_numbers(n * c * h * w, seed)) {
    view = channels_last ? PictureView{data.data(), n, c, h, w, c * h * w, 1, w * c, c}
                         : PictureView{data.data(), n, c, h, w, c * h * w, h * w, w, 1};
  }
  double at(int64_t n, int64_t c, int64_t y, int64_t x) const {
    if (y < 0 || x < 0 || y >= view.height || x >= view.width) return 0;
    return data[n * view.image + c * view.channel + y * view.row + x * view.column];
  }
};

struct Problem {
  TapCounts taps;
  Lattice from;
  TapChoice choice;
  bool channels_last;
};

// A correlation of 2 pictures of 34 channels with a kernel of 4x4 taps, of which `choice` picks
// some, to 35 channels of 9 x 6 pixels, and its gradient by the kernel.
struct Solution {
  std::vector<float> y, dw;
};

constexpr int64_t kImages = 2, kIn = 34, kOut = 35, kHeight = 9, kWidth = 6, kSide = 4;

Solution solve(const WinogradKernels& kernels, const Problem& problem) {
  Pictures x(kImages, kIn, 12, 11, problem.channels_last, 1);
  Pictures y(kImages, kOut, kHeight, kWidth, problem.channels_last, 2);
  std::vector<float> w = normal_numbers(kOut * kIn * kSide * kSide, 3);
  const TapCounts taps = problem.taps;
  const TileGrid grid{3, 2, kImages * 3 * 2};
  const Span all{0, grid.tiles};
  const int64_t points = taps.points(), panels = panels_of(kIn), rows = panels * kPanel;
  const int64_t tiles = points * point_stride(grid.tiles), kernel = points * point_stride(rows);
  std::vector<float> v(panels * tiles), u(kernel), scratch(multiply_scratch(taps)),
      pixels(kPixelScratch), region(gather_scratch(grid)), m(panels_of(kOut) * tiles), dw(w.size());
  // The gradient that belongs to y, before y is overwritten.
  const int64_t columns = panels, out_rows = panels_of(kOut) * kPanel;
  std::vector<float> du(columns * points * point_stride(out_rows));
  for (int64_t i = 0; i < panels; ++i)
    kernels.gather({x.view, problem.from, grid, all, i}, taps, v.data() + i * tiles, region.data());
  for (int64_t o = 0; o < panels_of(kOut); ++o)
    kernels.gather_gradient(
        {y.view, {1, 0, 0}, grid, all, o}, taps, m.data() + o * tiles, region.data());
  const KernelView gradient{dw.data(), kOut, kIn, kIn * kSide * kSide, kSide * kSide, kSide};
  for (int64_t i = 0; i < columns; ++i) {
    float* to = du.data() + i * points * point_stride(out_rows);
    for (int64_t o = 0; o < panels_of(kOut); ++o) {
      for (int64_t p = 0; p < points; ++p)
        kernels.accumulate(
            {grid.tiles, taps, p, o, out_rows}, m.data() + o * tiles, v.data() + i * tiles, to);
    }
    for (int64_t o = 0; o < panels_of(kOut); ++o)
      kernels.kernel_gradient(to, {gradient, problem.choice, taps, o, i, out_rows});
  }
  const KernelView view{w.data(), kIn, kOut, kSide * kSide, kIn * kSide * kSide, kSide};
  for (int64_t o = 0; o < panels_of(kOut); ++o) {
    for (int64_t i = 0; i < panels; ++i)
      kernels.transform_kernel({view, problem.choice, taps, i, o, rows}, i * kPanel, u.data());
    const TileProducts products{panels, grid.tiles, 0, taps, grid, all};
    kernels.multiply(products, v.data(), u.data(), false, pixels.data(), scratch.data());
    kernels.write(pixels.data(), {y.view, {1, 0, 0}, grid, all, o});
  }
  return {y.data, dw};
}

// The same in float64, as the definition has it.
void check(const Solution& got, const Problem& problem) {
  const Pictures x(kImages, kIn, 12, 11, problem.channels_last, 1);
  const Pictures dy(kImages, kOut, kHeight, kWidth, problem.channels_last, 2);
  Pictures y(kImages, kOut, kHeight, kWidth, problem.channels_last, 2);
  y.data = got.y;
  const std::vector<float> w = normal_numbers(kOut * kIn * kSide * kSide, 3);
  std::vector<double> dw(w.size());
  double error = 0;
  for (int64_t n = 0; n < kImages; ++n) {
    for (int64_t o = 0; o < kOut; ++o) {
      for (int64_t pixel = 0; pixel < kHeight * kWidth; ++pixel) {
        const int64_t i = pixel / kWidth, j = pixel % kWidth;
        double sum = 0;
        for (int64_t k = 0; k < kIn * problem.taps.y * problem.taps.x; ++k) {
          const int64_t c = k / (problem.taps.y * problem.taps.x);
          const int64_t a = k / problem.taps.x % problem.taps.y, b = k % problem.taps.x;
          const auto& choice = problem.choice;
          const int64_t ky = choice.step * (choice.flipped ? problem.taps.y - 1 - a : a);
          const int64_t kx = choice.step * (choice.flipped ? problem.taps.x - 1 - b : b);
          const int64_t at =
              ((o * kIn + c) * kSide + ky + choice.first_y) * kSide + kx + choice.first_x;
          const Lattice& from = problem.from;
          const double value =
              x.at(n, c, from.step * (i + a) + from.y, from.step * (j + b) + from.x);
          sum += w[at] * value;
          dw[at] += dy.at(n, o, i, j) * value;
        }
        error = std::max(error, std::abs(sum - y.at(n, o, i, j)));
      }
    }
  }
  CHECK(error < 2e-4);
  for (size_t k = 0; k < dw.size(); ++k) {
    if (std::abs(dw[k] - got.dw[k]) > 2e-4) CHECK(dw[k] == Approx(got.dw[k]));
  }
}

}  // namespace

TEST_CASE("EveryInstructionSetFiltersAsTheDefinitionSays") {
  for (const CpuKernels* set : available_cpu_kernels()) {
    CAPTURE(set->name);
    for (const bool last : {false, true}) {
      for (const bool flipped : {false, true}) {
        for (const Problem& problem : {Problem{{3, 3}, {1, -1, -1}, {1, 0, 0, flipped}, last},
                                       Problem{{3, 3}, {1, 0, 2}, {1, 1, 0, flipped}, last},
                                       Problem{{2, 2}, {2, -1, 0}, {2, 0, 1, flipped}, last},
                                       Problem{{2, 1}, {2, -3, 1}, {2, 1, 2, flipped}, last},
                                       Problem{{1, 2}, {1, 0, -1}, {2, 3, 0, flipped}, last},
                                       Problem{{1, 1}, {2, 1, 1}, {2, 0, 3, flipped}, last}}) {
          CAPTURE(problem.taps.y, problem.taps.x, last, flipped, problem.from.step);
          check(solve(set->winograd, problem), problem);
        }
      }
    }
  }
}
