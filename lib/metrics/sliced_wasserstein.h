// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "metrics/pictures.h"

namespace gantrain {

struct ValueRange {
  float low = 0;
  float high = 0;
};

// Computes the cost of moving one set of numbers onto another of equal size: the sum of |a_i - b_i|
// over both in sorted order, which is the area between their counting functions. Numbers are
// counted into buckets, and only buckets in which the functions cross are sorted, which is several
// times faster than sorting both sets. An object keeps its memory between calls; each thread needs
// its own.
class Transport {
 public:
  // Returns the cost. All numbers must lie in `range`. The result is NaN if the range is not
  // finite.
  double cost(std::span<const float> a, std::span<const float> b, const ValueRange& range);

 private:
  struct Bucket {
    int32_t a = 0;  // how many numbers of a
    int32_t b = 0;
    float net = 0;  // sum of a's places in the bucket, in [0, 1), less the sum of b's
  };
  // Returns where a number lies on the scale of buckets: 3.25 is a quarter into bucket 3.
  float place(float x) const { return (x - low_) * factor_; }
  size_t bucket_of(float place) const {
    const auto bucket = static_cast<size_t>(static_cast<int32_t>(place));
    return bucket < buckets_.size() ? bucket : buckets_.size() - 1;
  }
  void count(std::span<const float> a, std::span<const float> b);
  double area_outside_crossings();
  double area_in_crossings(std::span<const float> a, std::span<const float> b);
  std::span<const float> sorted_in_crossings(std::span<const float> numbers,
                                             int32_t Bucket::*how_many,
                                             std::vector<float>& sorted);

  std::vector<Bucket> buckets_;
  std::vector<uint8_t> crossing_;  // 1 where the functions cross; apart, to stay in the cache
  std::vector<float> unsorted_, a_, b_;
  std::vector<size_t> ends_;
  float low_ = 0;
  float factor_ = 0;
};

// Sliced Wasserstein distance of local patches, Karras et al. 2018, sec. 5. Pictures are
// [N, C, H, W] in 0..255, on any device; everything is computed there in float32.

// Side of a patch, and the smallest level's least side.
inline constexpr int64_t kPatch = 7;
inline constexpr int64_t kSmallestLevel = 16;

// Halves pictures (sizes rounded up): a 5x5 binomial filter with mirrored borders, then every
// second pixel.
at::Tensor pyramid_down(const at::Tensor& images);
// Doubles pictures to exactly height x width: zeros between pixels, then the same filter times 4.
at::Tensor pyramid_up(const at::Tensor& images, int64_t height, int64_t width);
// Returns the Laplacian pyramid, finest level first (Burt & Adelson 1983). The last level is the
// low-pass rest.
std::vector<at::Tensor> laplacian_pyramid(const at::Tensor& images, int64_t levels);
// Returns the number of levels R, R/2, ... down to 16; it is 1 for R below 32.
int64_t count_levels(int64_t resolution);

// Real and generated pictures of one shape. Both are borrowed.
struct PicturePair {
  Pictures& reals;
  Pictures& fakes;
};

// Centres of patches in pixels, int64 [N * K]: the K patches of the first picture, then those of
// the second, ...
struct Positions {
  at::Tensor x;
  at::Tensor y;
};
// Cuts patches out of one level [N, C, H, W]. Returns [N * K, C, 7, 7] with the axes (picture,
// centre), channel, x, y.
at::Tensor descriptors(const at::Tensor& level, const Positions& positions);
// Normalises each channel over the whole set to mean 0 and population standard deviation 1, in
// place. Returns the patches as [P, C * 49].
at::Tensor normalize_(at::Tensor& patches);
// Returns the mean absolute difference of the sorted projections of two sets [P, F] on the columns
// of directions [F, D], which it scales to unit length. The result is not yet multiplied by 1000.
// Ranks that share the work must all have both sets.
double wasserstein(const at::Tensor& a,
                   const at::Tensor& b,
                   const at::Tensor& directions,
                   const SharedWork& work = {});

// How many patches and directions are drawn. The defaults are the paper's.
struct SwdOptions {
  int64_t patches_per_image = 128;
  int64_t repeats = 4;
  int64_t directions_per_repeat = 128;
};

// Returns the distance of two sets of pictures, times 1000: one value for each level, finest first,
// then their mean. All channels count. Pictures 0 to `count` - 1 of each set are compared. Draws
// depend on the seed and on a picture's number alone, so any number of ranks gets the same values.
// Each rank needs 49 floats of memory for each channel of each patch of both sets, and 64 MB.
// Collective. Throws UserError(kInput) if a picture is smaller than 7x7, and c10::Error if the sets
// differ in shape or count is 0.
std::vector<double> swd(const PicturePair& pictures,
                        int64_t count,
                        uint64_t seed,
                        const SharedWork& work = {},
                        const SwdOptions& options = {});

}  // namespace gantrain
