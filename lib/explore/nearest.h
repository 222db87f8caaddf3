// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace gantrain {

// One of the pictures nearest to another.
struct Neighbour {
  int64_t picture = 0;    // its number
  bool mirrored = false;  // it is nearer when flipped left to right
  double distance = 0;
};

// Keeps, for each of N vectors, the nearest among vectors that come in batches. Its memory does not
// depend on how many come.
class NearestKeeper {
 public:
  // queries: [N, F]. `count` neighbours of each are kept. Query i does not meet picture
  // own[i]; empty: queries are none of the pictures.
  NearestKeeper(const at::Tensor& queries, int64_t count, std::vector<int64_t> own = {});

  // candidates: [M, F], of the pictures first, first + 1, ...
  void add(const at::Tensor& candidates, int64_t first, bool mirrored);

  // Returns for each query its neighbours, nearest first, each picture once; the distance is
  // Euclidean.
  const std::vector<std::vector<Neighbour>>& nearest() const { return nearest_; }

 private:
  void meet(size_t query, const Neighbour& candidate);

  at::Tensor queries_;
  int64_t count_;
  std::vector<int64_t> own_;
  std::vector<std::vector<Neighbour>> nearest_;
};

}  // namespace gantrain
