// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cpu_kernels/winograd.h"

namespace gantrain {

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
TileGrid tile_grid(int64_t images, int64_t height, int64_t width);

// Writes y = sum over groups and parts of the correlations of x with w (rows: x's channels,
// columns: y's), at the pixels of y that lie on the lattice `to`. The tiles of `grid` are shared
// out among LibTorch's threads.
void correlate(const PictureView& x,
               const std::vector<CorrelationGroup>& groups,
               const KernelView& w,
               const PictureView& y,
               const Lattice& to,
               const TileGrid& grid);

// Writes the gradient of such a sum with one group by its kernel, where dy is the gradient by the
// result: dw's rows are dy's channels, its columns x's. It writes the taps that the group chooses.
void correlate_gradient(const PictureView& x,
                        const CorrelationGroup& group,
                        const PictureView& dy,
                        const TileGrid& grid,
                        const KernelView& dw);

}  // namespace gantrain
