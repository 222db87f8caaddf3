// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "metrics/pictures.h"

namespace gantrain {

// Multi-scale structural similarity (Wang, Simoncelli & Bovik 2003). Pictures are [N, C, H, W] in
// 0..255; computed in float64.

// One scale, per picture [N], float64: ssim is luminance times contrast and structure, cs is
// without luminance.
struct Similarity {
  at::Tensor ssim;
  at::Tensor cs;
};
// Compares pictures under an 11x11 Gaussian window with sigma 1.5. For pictures of a smaller side n
// the window is n x n with sigma 1.5 n / 11.
Similarity ssim(const at::Tensor& a, const at::Tensor& b);

// Returns the exponents of the five scales (Wang et al., sec. 3), finest first. Below 64 pixels it
// returns only the first three of them, so that the smallest scale has at least 4 pixels for
// pictures of 16 pixels or more.
std::vector<double> ms_ssim_weights(int64_t resolution);

// Returns the similarity of a[i] and b[i], [N] float64: the product over scales of cs^w, and of
// ssim^w at the last scale. Negative factors count as 0.
at::Tensor ms_ssim_pairs(const at::Tensor& a,
                         const at::Tensor& b,
                         const std::vector<double>& weights);

// Measures the diversity of pictures 0 to count - 1: the mean similarity of pictures 2i and 2i + 1;
// lower is more diverse. Collective. Throws c10::Error for fewer than two pictures.
double ms_ssim(Pictures& pictures, int64_t count, const SharedWork& work = {});

// Returns the mean Euclidean distance between two of the first `count` pictures (at most 2048
// count, in all pairs), each reduced by averaging to at most 32 pixels on its shorter side. Values
// 0..255, so that two pictures of opposite colour differ by 255 a value: divided by the root of the
// number of values. Collective. Needs two pictures.
double mean_distance(Pictures& pictures, int64_t count, const SharedWork& work);

// Which of the ten classes of synth:shapes a set of pictures shows.
struct Modes {
  int64_t shown = 0;      // classes that at least a hundredth of the pictures belong to, and one
  double recognised = 0;  // share of the pictures that look like a shape at all
};

// Sorts the first `count` fakes into the classes of synth:shapes, by the nearest outline among a
// thousand reals: a picture's outline is where it is darker or more colourful than the pale ground,
// moved to the middle and scaled. Fakes whose outline is further from every real one than reals'
// outlines are from each other belong to no class. `reals` are synth:shapes of the fakes' size.
// Collective. Sorts at least 95 % of real shapes of 16 pixels or more rightly.
Modes count_modes(Pictures& reals, Pictures& fakes, int64_t count, const SharedWork& work);

// Returns the class of each of the first `count` fakes, -1 for none, int64 [count]. Collective.
at::Tensor classify_shapes(Pictures& reals, Pictures& fakes, int64_t count, const SharedWork& work);

// How many of generated pictures of synth:shapes-attributes show what their labels ask for.
struct AttributeAccuracy {
  double color = 0, size = 0, angle = 0;  // shares of the pictures
  double all = 0;                         // with all three
};

// Looks at the first `count` fakes, whose labels are vectors of ShapeAttributes. A pixel's share of
// the ellipse follows from its lowest channel between the ellipse's and the ground's; the ellipse's
// area gives the size, its second moments the angle, the means of its channels the colour. The
// colour is right where its three bits are, the size within 0.2 of the range of 1, the angle within
// 15 degrees. Collective. Throws UserError(kInput) where pictures are no RGB or labels not such.
AttributeAccuracy attribute_accuracy(Pictures& fakes, int64_t count, const SharedWork& work);

// Returns what pictures, uint8 [N, 3, H, W], show: [N, 5] as ShapeAttributes has it.
at::Tensor shown_attributes(const at::Tensor& pictures);

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
// place. Returns the patches as [P, C * 49]. `between` is called with how much is done, after each
// piece of 64 MB.
at::Tensor normalize_(at::Tensor& patches,
                      const std::function<void(int64_t done, int64_t of)>& between = {});
// Returns the mean absolute difference of the sorted projections of two sets [P, F] on the columns
// of directions [F, D], which it scales to unit length. The result is not yet multiplied by 1000.
// Ranks that share the work must all have both sets.
double wasserstein(const at::Tensor& a,
                   const at::Tensor& b,
                   const at::Tensor& directions,
                   const SharedWork& work = {});

// Returns the distance of two sets of pictures, times 1000: one value for each level, finest first,
// then their mean. All channels count. Pictures 0 to `count` - 1 of each set are compared; a
// smaller set is repeated, with patches at other places, as the paper's code repeats its data.
// Draws depend on the seed and on a picture's number alone, so any number of ranks gets the same
// values. Each rank needs 49 floats of memory for each channel of each patch of both sets, and 64
// MB. Collective. Throws UserError(kInput) if a picture is smaller than 7x7, and c10::Error if the
// sets differ in shape or count is 0.
std::vector<double> swd(const PicturePair& pictures,
                        int64_t count,
                        uint64_t seed,
                        const SharedWork& work = {});

// The bytes of tensors that it needs at a time on each rank.
int64_t swd_bytes(int64_t count, int64_t channels);

class Detector;

// How perceptual path length is measured (Karras et al. 2019, sec. 4.1; as "ppl2_wend": at the ends
// of paths through w, on whole pictures).
struct PathLengthOptions {
  int64_t samples = 50'000;
  double epsilon = 1e-4;
  uint64_t seed = 0;
};

// Returns the mean of LPIPS(G(t = 0), G(t = epsilon)) / epsilon^2 over paths between two random
// latents with one label, without those below the 1st and above the 99th percentile: straight paths
// through w, and great circles through z for generators without w. Noise inputs are the same at
// both points. Pictures larger than 256 pixels are reduced to that by averaging. Collective.
double perceptual_path_length(GeneratedPictures& pictures,
                              Detector& detector,
                              const PathLengthOptions& options,
                              const SharedWork& work);

// Returns the mean of the values from the 1st to the 99th percentile, both with their bounds: the
// order statistics next below and next above.
double mean_within_percentiles(std::vector<double> values);

// Pictures [N, C, H, W] that were moved as an ideal generator would move them, to compare a
// generator's with (Karras et al. 2021, app. E). x points to the right and y down; rotations are
// about the picture's middle, and positive angles, in radians, turn counter-clockwise.
struct MovedPictures {
  at::Tensor pictures;  // [N, C, H, W]
  at::Tensor mask;      // [H, W]: 1 where they depend on what was inside the picture alone, else 0
};

// Shifts by whole pixels; zeros come in.
MovedPictures shifted_by_pixels(const at::Tensor& x, int64_t right, int64_t down);

// Shifts by fractions of pixels, with a windowed sinc of 6 taps (app. E.2).
MovedPictures shifted(const at::Tensor& x, double right, double down);

// Rotates, by a filter with the band limits of both pixel grids (app. E.3).
MovedPictures rotated(const at::Tensor& x, double angle);

// What `rotated` by `angle` does to the spectrum of pictures, without rotating them: applied to a
// generator's rotated picture, it makes it comparable with a rotated picture.
MovedPictures pseudo_rotated(const at::Tensor& x, double angle);

// The filter of a rotation on a grid `up` times as fine as the pixels, float64: [47, 47] for 4,
// [11, 11] for 1. Each of its up x up phases has the sum 1 / up^2.
at::Tensor rotation_filter(double angle, int64_t up);

// What the input of the generator is moved by: whole pixels up to an eighth of the picture's size
// (EQ-T), any fractions of them, or rotations by any angle (EQ-R).
enum class MovedBy { kPixels, kFractions, kAngles };
// What the metric of that name moves by: "eqt", "eqt_frac", "eqr". Nothing for other metrics.
std::optional<MovedBy> moved_by(std::string_view metric);

// A move of pictures.
struct Move {
  double right = 0, down = 0;  // pixels
  double angle = 0;            // counter-clockwise, radians
};

// Returns {sum of squared differences, count of values} between the pictures of latents ws [N,
// num_ws, w_dim] whose input was moved and the moved pictures of the same latents, where both are
// valid: float64 [2] on the CPU. The generator is a MovableInput.
at::Tensor equivariance_sums(Generator& generator,
                             const at::Tensor& ws,
                             const Move& move,
                             MovedBy moved_by,
                             const SynthesisOptions& how);
// The peak signal-to-noise ratio of such sums, in dB; the peak is 2.
double equivariance_of(const at::Tensor& sums);

struct EquivarianceOptions {
  MovedBy moved_by = MovedBy::kPixels;
  int64_t samples = 50'000;
  uint64_t seed = 0;
};

// Returns how exactly pictures move with the generator's input, in dB (Karras et al. 2021, sec. 2.2
// and app. E): the peak signal-to-noise ratio, peak 2, between pictures of a moved input and moved
// pictures of an input at rest, where both are valid. Batches of 4 share their move. Noise inputs
// are left out. Collective. Throws UserError as check_movable() does.
double equivariance(GeneratedPictures& pictures,
                    const EquivarianceOptions& options,
                    const SharedWork& work);

// Throws UserError(kUsage) that names `metric` unless the generator's input can be moved so.
void check_movable(Generator& generator, MovedBy moved_by, std::string_view metric);

}  // namespace gantrain
