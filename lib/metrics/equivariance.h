// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "metrics/pictures.h"
#include "metrics/shared_work.h"

namespace gantrain {

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
