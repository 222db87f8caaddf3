// SPDX-License-Identifier: Apache-2.0
#include "metrics/diversity.h"

#include <algorithm>
#include <cmath>

#include "core/torch.h"
#include "metrics/detector.h"
#include "metrics/neighbours.h"
#include "util/error.h"

namespace gantrain {

namespace {

constexpr int64_t kMostPictures = 2048;  // whose distances are computed
constexpr int64_t kSide = 32;            // that they are reduced to
constexpr int64_t kShapes = 10;          // classes of synth:shapes
constexpr int64_t kBank = 1024;          // reals that fakes are compared with
constexpr int64_t kProbes = 512;         // further reals, which say how near is near
constexpr int64_t kOutline = 16;         // side of a normalised outline in pixels

// Rows that each picture is turned into, [count, F] float64, on all ranks.
using ToRows = at::Tensor (*)(const at::Tensor& pictures);
at::Tensor rows_of(Pictures& pictures,
                   const Pieces& pieces,
                   int64_t first,
                   ToRows to_rows,
                   const SharedWork& work) {
  at::Tensor all = at::zeros({pieces.items, to_rows(pictures.get({first})).size(1)}, at::kDouble);
  share(work, pieces, [&](Piece piece) {
    piece.first += first;
    const at::Tensor rows = to_rows(pictures.get(piece.numbers()));
    all.narrow(0, piece.first - first, piece.count).copy_(rows);
  });
  sum_over_ranks_(work, all);
  return all;
}

at::Tensor reduced(const at::Tensor& pictures) {
  const at::Tensor x = pictures.to(at::kFloat);
  const int64_t factor = std::min(x.size(2), x.size(3)) / kSide;
  return (factor > 1 ? at::avg_pool2d(x, {factor, factor}) : x).flatten(1);
}

// 1 where a picture shows a shape, 0 on the ground, [N, 1, H, W]. The ground of synth:shapes is
// pale in every channel; shapes are dark or colourful, so that one channel is low.
at::Tensor shape_of(const at::Tensor& pictures) {
  constexpr double kPalest = 150;  // of a shape's lowest channel; the ground's is above 159
  const at::Tensor lowest = std::get<0>(to_rgb(pictures).min(1, /*keepdim=*/true));
  return ((kPalest - lowest) / 20 + 0.5).clamp_(0, 1);
}

// How much of the picture's border shows a shape, [N, 1]: nearly nothing for synth:shapes.
at::Tensor on_border(const at::Tensor& shape) {
  const auto line = [&](int64_t dim, int64_t at) { return shape.select(dim, at).mean({1, 2}); };
  const at::Tensor sum = line(2, 0) + line(2, -1) + line(3, 0) + line(3, -1);
  return (sum / 4).unsqueeze(1);
}

// The shape moved to the middle and scaled to equal spread, and the border, [N, 257].
at::Tensor outlines(const at::Tensor& pictures) {
  const at::Tensor shape = shape_of(pictures);
  const int64_t n = shape.size(0), height = shape.size(2), width = shape.size(3);
  const at::Tensor y = at::arange(height, at::kFloat).add_(0.5).view({1, 1, height, 1});
  const at::Tensor x = at::arange(width, at::kFloat).add_(0.5).view({1, 1, 1, width});
  const at::Tensor mass = shape.sum({1, 2, 3}, /*keepdim=*/true).clamp_min(1e-3);
  const at::Tensor mean_x = (shape * x).sum({1, 2, 3}, true) / mass;
  const at::Tensor mean_y = (shape * y).sum({1, 2, 3}, true) / mass;
  const at::Tensor squared = (x - mean_x).square() + (y - mean_y).square();
  const at::Tensor spread = ((shape * squared).sum({1, 2, 3}, true) / mass).sqrt().clamp_min(0.5);
  // Sampled from -2 to 2 spreads around the middle; grid_sample counts -1 to 1 over the picture.
  const at::Tensor steps = at::linspace(-2, 2, kOutline).view({1, kOutline});
  const at::Tensor at_x = (mean_x.view({n, 1}) + spread.view({n, 1}) * steps) * 2 / width - 1;
  const at::Tensor at_y = (mean_y.view({n, 1}) + spread.view({n, 1}) * steps) * 2 / height - 1;
  const at::Tensor grid = at::stack({at_x.view({n, 1, kOutline}).expand({n, kOutline, kOutline}),
                                     at_y.view({n, kOutline, 1}).expand({n, kOutline, kOutline})},
                                    3);
  const at::Tensor outline =
      at::grid_sampler_2d(shape, grid, /*bilinear*/ 0, /*zeros*/ 0, /*align_corners=*/false);
  return at::cat({outline.flatten(1), kOutline * on_border(shape)}, 1);
}

// Nearest row of `bank` to each row, and the squared distance to it.
struct Nearest {
  at::Tensor distance;
  at::Tensor row;
};
Nearest nearest(const at::Tensor& rows, const at::Tensor& bank) {
  const auto [distance, row] = squared_distances(rows, bank).min(1);
  return {distance, row};
}

}  // namespace

double mean_distance(Pictures& pictures, int64_t count, const SharedWork& work) {
  const at::NoGradGuard no_grad;
  TORCH_CHECK(count >= 2, "mean_distance: needs two pictures");
  const Pieces pieces = {"pictures for diversity", std::min(count, kMostPictures), kPicturesAtOnce};
  const at::Tensor rows = rows_of(pictures, pieces, 0, reduced, work);
  const auto n = static_cast<double>(rows.size(0));
  const at::Tensor distances = squared_distances(rows, rows).sqrt();
  const double sum = (distances.sum() - distances.trace()).item<double>();
  return sum / (n * (n - 1)) / std::sqrt(static_cast<double>(rows.size(1)));
}

at::Tensor classify_shapes(Pictures& reals,
                           Pictures& fakes,
                           int64_t count,
                           const SharedWork& work) {
  const at::NoGradGuard no_grad;
  if (reals.size() < 8 * kShapes)
    fail(Exit::kInput, "modes: needs {} reals of synth:shapes or more", 8 * kShapes);
  const int64_t bank_size = std::min(kBank, reals.size() / 2);
  const int64_t probes = std::min(kProbes, reals.size() - bank_size);
  const auto outlines_of = [&](Pictures& set, int64_t first, int64_t items) {
    return rows_of(set, {"pictures for modes", items, kPicturesAtOnce}, first, outlines, work);
  };
  const at::Tensor bank = outlines_of(reals, 0, bank_size);
  const at::Tensor near = nearest(outlines_of(reals, bank_size, probes), bank).distance;
  const at::Tensor farthest = 1.5 * near.quantile(0.99);
  const Piece in_bank = {.first = 0, .count = bank_size};
  const at::Tensor labels = at::tensor(reals.labels(in_bank.numbers()), at::kLong);
  const Nearest of_fakes = nearest(outlines_of(fakes, 0, count), bank);
  return labels.index_select(0, of_fakes.row).masked_fill(of_fakes.distance.gt(farthest), -1);
}

Modes count_modes(Pictures& reals, Pictures& fakes, int64_t count, const SharedWork& work) {
  const at::Tensor classes = classify_shapes(reals, fakes, count, work);
  const double enough = std::max(1.0, static_cast<double>(count) / (10 * kShapes));
  Modes modes;
  for (int64_t label = 0; label < kShapes; ++label) {
    if (classes.eq(label).sum().item<double>() >= enough) ++modes.shown;
  }
  modes.recognised = classes.ge(0).to(at::kDouble).mean().item<double>();
  return modes;
}

}  // namespace gantrain
