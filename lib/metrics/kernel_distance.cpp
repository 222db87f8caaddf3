// SPDX-License-Identifier: Apache-2.0
#include "metrics/kernel_distance.h"

#include <algorithm>

#include "core/random.h"
#include "core/torch.h"

namespace gantrain {

namespace {

at::Tensor rows(const at::Tensor& features, const std::vector<int64_t>& chosen) {
  const at::Tensor index = at::tensor(chosen, at::kLong);
  return features.index_select(0, index).to(at::kCPU, at::kDouble);
}

// k(x, y) = (x.y / F + 1)^3 of all pairs.
at::Tensor kernel(const at::Tensor& x, const at::Tensor& y) {
  return x.mm(y.t()).div_(x.size(1)).add_(1).pow_(3);
}

// The sum over all pairs of two different rows.
double sum_of_others(const at::Tensor& square) {
  return (square.sum() - square.trace()).item<double>();
}

// `count` different numbers below `size`: the beginning of a random permutation (Fisher-Yates from
// the front), without making the rest of it.
std::vector<int64_t> draw(const Stream& stream, int64_t size, int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) all[static_cast<size_t>(i)] = i;
  for (int64_t i = 0; i < count; ++i) {
    const auto left = static_cast<uint64_t>(size - i);
    const auto other = static_cast<size_t>(i) + stream.below(left, static_cast<uint64_t>(i));
    std::swap(all[static_cast<size_t>(i)], all[other]);
  }
  all.resize(static_cast<size_t>(count));
  return all;
}

}  // namespace

double kernel_distance(const FeatureSets& sets, const Subset& subset) {
  const at::Tensor x = rows(sets.fakes, subset.fakes), y = rows(sets.reals, subset.reals);
  const auto m = static_cast<double>(x.size(0));
  const double own = sum_of_others(kernel(x, x)) + sum_of_others(kernel(y, y));
  return own / (m - 1) - 2 * kernel(x, y).sum().item<double>() / m;
}

Subset draw_subset(const FeatureSets& sets, int64_t k, const KidOptions& options) {
  const int64_t m = std::min({options.most, sets.fakes.size(0), sets.reals.size(0)});
  const auto subset = static_cast<uint64_t>(k);
  return {.fakes = draw(Stream(options.seed, "kid/fakes", subset), sets.fakes.size(0), m),
          .reals = draw(Stream(options.seed, "kid/reals", subset), sets.reals.size(0), m)};
}

double kernel_inception_distance(const FeatureSets& sets,
                                 const KidOptions& options,
                                 const SharedWork& work) {
  const int64_t m = std::min({options.most, sets.fakes.size(0), sets.reals.size(0)});
  at::Tensor distances = at::zeros({options.subsets}, at::kDouble);
  share(work, {.doing = "subsets for kid", .items = options.subsets}, [&](const Piece& piece) {
    distances[piece.first] = kernel_distance(sets, draw_subset(sets, piece.first, options));
  });
  sum_over_ranks_(work, distances);
  return distances.mean().item<double>() / static_cast<double>(m);
}

}  // namespace gantrain
