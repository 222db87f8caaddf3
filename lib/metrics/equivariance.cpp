// SPDX-License-Identifier: Apache-2.0
#include "metrics/equivariance.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "core/tensors.h"
#include "core/torch.h"
#include "gan/generator.h"
#include "gan/movable_input.h"
#include "metrics/picture_moves.h"
#include "util/error.h"

namespace gantrain {

using at::Tensor;

namespace {

constexpr int64_t kBatch = 4;            // pictures with one move
constexpr double kLargestShift = 0.125;  // of the picture's size
constexpr double kPeak = 2;              // pictures lie in [-1, 1]

// The move of a batch, from two numbers in [-1, 1).
Move move_of(const Tensor& drawn, const Size& size, MovedBy moved_by) {
  const double a = drawn[0].item<double>(), b = drawn[1].item<double>();
  if (moved_by == MovedBy::kAngles) return {.angle = a * std::numbers::pi};
  Move move{.right = a * kLargestShift * static_cast<double>(size.width),
            .down = b * kLargestShift * static_cast<double>(size.height)};
  if (moved_by == MovedBy::kPixels) {
    move.right = std::nearbyint(move.right);
    move.down = std::nearbyint(move.down);
  }
  return move;
}

// The inverse of the move in units of the picture's width: [3, 3].
Tensor inverse_of(const Move& move, const Tensor& picture) {
  const auto width = static_cast<double>(picture.size(3));
  const double c = std::cos(move.angle), s = std::sin(move.angle);
  return at::tensor({c, -s, -move.right / width, s, c, -move.down / width, 0.0, 0.0, 1.0},
                    at::kDouble)
      .reshape({3, 3});
}

// {sum of squared errors, count}, where both pictures are valid.
Tensor compared(const Tensor& moved_input, const Tensor& at_rest, const Move& move, MovedBy by) {
  Tensor made = moved_input;
  MovedPictures wanted;
  if (by == MovedBy::kAngles) {
    wanted = rotated(at_rest, move.angle);
    const MovedPictures turned = pseudo_rotated(moved_input, move.angle);
    made = turned.pictures;
    wanted.mask = wanted.mask * turned.mask;
  } else if (by == MovedBy::kFractions) {
    wanted = shifted(at_rest, move.right, move.down);
  } else {
    wanted = shifted_by_pixels(at_rest, std::llround(move.right), std::llround(move.down));
  }
  const Tensor error = (made - wanted.pictures).square() * wanted.mask;
  const double planes = static_cast<double>(made.size(0) * made.size(1));
  return at::stack({error.sum(at::kDouble), wanted.mask.sum(at::kDouble) * planes}).cpu();
}

}  // namespace

std::optional<MovedBy> moved_by(std::string_view metric) {
  if (metric == "eqt") return MovedBy::kPixels;
  if (metric == "eqt_frac") return MovedBy::kFractions;
  return metric == "eqr" ? std::optional(MovedBy::kAngles) : std::nullopt;
}

Tensor equivariance_sums(Generator& generator,
                         const Tensor& ws,
                         const Move& move,
                         MovedBy moved_by,
                         const SynthesisOptions& how) {
  const Tensor at_rest = generator.synthesize(ws, how);
  auto& movable = dynamic_cast<MovableInput&>(generator);
  const Tensor moved = movable.synthesize_moved(ws, inverse_of(move, at_rest), how);
  return compared(moved, at_rest, move, moved_by);
}

double equivariance_of(const Tensor& sums) {
  const double mean = sums[0].item<double>() / sums[1].item<double>();
  return 20 * std::log10(kPeak) - 10 * std::log10(mean);
}

void check_movable(Generator& generator, MovedBy moved_by, std::string_view metric) {
  const auto* movable = dynamic_cast<const MovableInput*>(&generator);
  if (movable != nullptr && (movable->rotates() || moved_by != MovedBy::kAngles)) return;
  fail(Exit::kUsage,
       "{}: {}; it is a number of StyleGAN3's{}",
       metric,
       movable == nullptr ? "this model has no input that could be moved"
                          : "this model's input can be translated, but not rotated",
       moved_by == MovedBy::kAngles ? "" : " (and of StyleGAN2's) generators");
}

double equivariance(GeneratedPictures& pictures,
                    const EquivarianceOptions& options,
                    const SharedWork& work) {
  const at::NoGradGuard no_grad;
  Generator& generator = pictures.generator();
  const MovedBy by = options.moved_by;
  check_movable(generator, by, "equivariance");
  SynthesisOptions how = pictures.options().synthesis;
  how.noise = NoiseMode::kNone;
  const Stream latents(options.seed, "equivariance/z"), moves(options.seed, "equivariance/move");
  const Tensor one = pictures.get({0});
  const Size size{one.size(3), one.size(2)};
  Tensor sums = at::zeros({2}, at::kDouble);
  share(work, {"moved pictures", options.samples, kBatch}, [&](const Piece& piece) {
    const Tensor z = normal(latents, {piece.first, 1, piece.count}, {generator.z_dim()});
    const std::vector<int64_t> own = pictures.labels(piece.numbers());
    const Tensor labels = own.empty() ? Tensor() : at::tensor(own, at::kLong);
    const Tensor drawn = uniform(moves, {piece.first / kBatch, 1, 1}, {2})[0] * 2 - 1;
    const Move move = move_of(drawn, size, by);
    sums += equivariance_sums(generator, generator.map(z, labels, how), move, by, how);
  });
  sum_over_ranks_(work, sums);
  return equivariance_of(sums);
}

}  // namespace gantrain
