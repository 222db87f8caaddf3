// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "metrics/pictures.h"

namespace gantrain {

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
