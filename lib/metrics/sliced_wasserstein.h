// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace gantrain {

// Sliced Wasserstein distance of local patches, Karras et al. 2018, sec. 5. Pictures are
// [N, C, H, W] in 0..255, on any device; everything is computed there in float32.

// Side of a patch, and the smallest level's least side.
inline constexpr int64_t kPatch = 7;
inline constexpr int64_t kSmallestLevel = 16;

// Half as large (rounded up): 5x5 binomial filter, borders mirrored, every second pixel.
at::Tensor pyramid_down(const at::Tensor& images);
// Twice as large, to exactly height x width: zeros between, the same filter times 4.
at::Tensor pyramid_up(const at::Tensor& images, int64_t height, int64_t width);
// Laplacian pyramid, finest first (Burt & Adelson 1983); the last level is the low-pass rest.
std::vector<at::Tensor> laplacian_pyramid(const at::Tensor& images, int64_t levels);
// R, R/2, ... down to 16; one level if R is below 32.
int64_t count_levels(int64_t resolution);

// Centres of patches, int64 [N * K], K for each picture in turn.
struct Positions {
  at::Tensor x;
  at::Tensor y;
};
// Patches of one level [N, C, H, W] as [N * K, C, 7, 7]: picture, centre; channel, x, y.
at::Tensor descriptors(const at::Tensor& level, const Positions& positions);
// Per channel over the whole set: minus the mean, over the population's standard deviation. Gives
// [P, C * 49]; works in place.
at::Tensor normalize_(at::Tensor& patches);
// Mean absolute difference of the sorted projections of two sets [P, F] on the columns of
// directions [F, D], which are made unit length here. Not yet times 1000.
double wasserstein(const at::Tensor& a, const at::Tensor& b, const at::Tensor& directions);

// How much is drawn. The defaults are the paper's.
struct SwdOptions {
  int64_t patches_per_image = 128;
  int64_t repeats = 4;
  int64_t directions_per_repeat = 128;
};

// Distance of two sets of uint8 pictures, times 1000: one value a level, finest first, then their
// mean. If one set is larger only its first pictures count. With 2 channels the first is used, with
// 4 the first three. Draws depend on seed and on a picture's place alone. Memory: 147 floats per
// patch of both sets, and 64 MB. Throws UserError if a picture is smaller than 7x7, TORCH_CHECK if
// the sets differ in shape or are empty.
std::vector<double> swd(const at::Tensor& reals,
                        const at::Tensor& fakes,
                        uint64_t seed,
                        const SwdOptions& options = {});

}  // namespace gantrain
