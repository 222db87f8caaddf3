// SPDX-License-Identifier: Apache-2.0
#include "explore/nearest.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/torch.h"
#include "metrics/neighbours.h"

namespace gantrain {

NearestKeeper::NearestKeeper(const at::Tensor& queries, int64_t count, std::vector<int64_t> own)
    : queries_(queries),
      count_(count),
      own_(std::move(own)),
      nearest_(static_cast<size_t>(queries.size(0))) {}

void NearestKeeper::add(const at::Tensor& candidates, int64_t first, bool mirrored) {
  const at::Tensor distances = squared_distances(queries_, candidates);
  // One more than are kept: a query's own picture may be among them.
  const int64_t looked_at = std::min(count_ + 1, candidates.size(0));
  const auto [least, which] = distances.topk(looked_at, 1, /*largest=*/false);
  const auto squared = least.accessor<double, 2>();
  const auto index = which.accessor<int64_t, 2>();
  for (int64_t q = 0; q < queries_.size(0); ++q) {
    for (int64_t i = 0; i < looked_at; ++i)
      meet(static_cast<size_t>(q), {first + index[q][i], mirrored, std::sqrt(squared[q][i])});
  }
}

void NearestKeeper::meet(size_t query, const Neighbour& candidate) {
  if (query < own_.size() && own_[query] == candidate.picture) return;
  std::vector<Neighbour>& list = nearest_[query];
  const auto rank = [](const Neighbour& n) { return std::tie(n.distance, n.picture, n.mirrored); };
  const auto known = std::find_if(
      list.begin(), list.end(), [&](const Neighbour& n) { return n.picture == candidate.picture; });
  if (known != list.end()) {
    if (rank(candidate) >= rank(*known)) return;
    list.erase(known);
  }
  const auto place = std::find_if(
      list.begin(), list.end(), [&](const Neighbour& n) { return rank(candidate) < rank(n); });
  list.insert(place, candidate);
  if (static_cast<int64_t>(list.size()) > count_) list.pop_back();
}

}  // namespace gantrain
