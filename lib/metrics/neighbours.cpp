// SPDX-License-Identifier: Apache-2.0
#include "metrics/neighbours.h"

#include <algorithm>
#include <functional>
#include <string>

#include "core/torch.h"

namespace gantrain {

namespace {

constexpr int64_t kRowsAtOnce = 512;
constexpr int64_t kColumnsAtOnce = 8192;
constexpr double kRounding = 1e-13;  // of a squared distance, in squared lengths

// Rows of features about a common centre: distances lose fewer digits between short vectors.
struct Centred {
  at::Tensor features;  // [N, F]
  at::Tensor centre;    // [F] float64

  int64_t size() const { return features.size(0); }
  at::Tensor rows(int64_t first, int64_t count) const {
    const at::Tensor some = features.narrow(0, first, std::min(count, size() - first));
    return some.to(at::kCPU, at::kDouble) - centre;
  }
};

at::Tensor mean_of(const at::Tensor& features) {
  return features.mean(0, false, at::kDouble).cpu();
}

// Calls `look` with the distances of a block of rows to each block of columns, and where the
// columns begin.
using Look = std::function<void(const at::Tensor& distances, int64_t first_column)>;
void for_columns(const at::Tensor& rows, const Centred& columns, const Look& look) {
  for (int64_t first = 0; first < columns.size(); first += kColumnsAtOnce)
    look(squared_distances(rows, columns.rows(first, kColumnsAtOnce)), first);
}

// For each row of `points`, 1 where it lies in any ball.
at::Tensor in_any_ball(const Centred& points,
                       const Centred& centres,
                       const at::Tensor& radii,
                       const SharedWork& work) {
  at::Tensor inside = at::zeros({points.size()}, at::kDouble);
  const Pieces pieces = {"pictures for pr", points.size(), kRowsAtOnce};
  share(work, pieces, [&](const Piece& piece) {
    const at::Tensor rows = points.rows(piece.first, piece.count);
    at::Tensor any = at::zeros({piece.count}, at::kBool);
    for_columns(rows, centres, [&](const at::Tensor& distances, int64_t first) {
      any.logical_or_(distances.le(radii.narrow(0, first, distances.size(1))).any(1));
    });
    inside.narrow(0, piece.first, piece.count).copy_(any);
  });
  sum_over_ranks_(work, inside);
  return inside;
}

at::Tensor radii_of(const Centred& set, int64_t k, const SharedWork& work) {
  TORCH_CHECK(set.size() > k, "neighbours: more than ", k, " rows are needed");
  at::Tensor radii = at::zeros({set.size()}, at::kDouble);
  const Pieces pieces = {"neighbours of pictures", set.size(), kRowsAtOnce};
  share(work, pieces, [&](const Piece& piece) {
    at::Tensor nearest;  // [rows, up to k + 1], of the columns so far
    for_columns(set.rows(piece.first, piece.count), set, [&](at::Tensor distances, int64_t) {
      if (nearest.defined()) distances = at::cat({nearest, distances}, 1);
      const int64_t kept = std::min(k + 1, distances.size(1));
      nearest = std::get<0>(distances.topk(kept, 1, /*largest=*/false, /*sorted=*/true));
    });
    radii.narrow(0, piece.first, piece.count).copy_(nearest.select(1, k));
  });
  sum_over_ranks_(work, radii);
  return radii;
}

}  // namespace

at::Tensor squared_distances(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  const at::Tensor lengths = x.square().sum(1, true) + y.square().sum(1).unsqueeze(0);
  const at::Tensor distances = at::addmm(lengths, x, y.t(), 1, -2);
  return distances.masked_fill_(distances.lt(lengths * kRounding), 0);
}

at::Tensor squared_radii(const at::Tensor& features, int64_t k, const SharedWork& work) {
  return radii_of({features, mean_of(features)}, k, work);
}

PrecisionRecall precision_recall(const FeatureSets& sets, int64_t k, const SharedWork& work) {
  const at::NoGradGuard no_grad;
  const at::Tensor centre = mean_of(sets.reals);
  const Centred reals = {sets.reals, centre}, fakes = {sets.fakes, centre};
  const at::Tensor of_reals = radii_of(reals, k, work), of_fakes = radii_of(fakes, k, work);
  return {.precision = in_any_ball(fakes, reals, of_reals, work).mean().item<double>(),
          .recall = in_any_ball(reals, fakes, of_fakes, work).mean().item<double>()};
}

DensityCoverage density_coverage(const FeatureSets& sets, int64_t k, const SharedWork& work) {
  const at::NoGradGuard no_grad;
  const at::Tensor centre = mean_of(sets.reals);
  const Centred reals = {sets.reals, centre}, fakes = {sets.fakes, centre};
  const at::Tensor radii = radii_of(reals, k, work);
  at::Tensor fakes_inside = at::zeros({reals.size()}, at::kDouble);  // of each real's ball
  const Pieces pieces = {"pictures for dc", reals.size(), kRowsAtOnce};
  share(work, pieces, [&](const Piece& piece) {
    const at::Tensor radius = radii.narrow(0, piece.first, piece.count).unsqueeze(1);
    const at::Tensor count = fakes_inside.narrow(0, piece.first, piece.count);
    for_columns(reals.rows(piece.first, piece.count), fakes, [&](const at::Tensor& d, int64_t) {
      count.add_(d.lt(radius).sum(1));
    });
  });
  sum_over_ranks_(work, fakes_inside);
  const auto balls = static_cast<double>(k * fakes.size());
  return {.density = fakes_inside.sum().item<double>() / balls,
          .coverage = fakes_inside.gt(0).to(at::kDouble).mean().item<double>()};
}

}  // namespace gantrain
