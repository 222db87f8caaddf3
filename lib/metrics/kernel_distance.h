// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "metrics/feature_sets.h"
#include "metrics/shared_work.h"

namespace gantrain {

// Rows of two sets of features that are compared with each other: as many of each.
struct Subset {
  std::vector<int64_t> fakes;
  std::vector<int64_t> reals;
};

// Returns m times the unbiased estimate of the squared maximum mean discrepancy of one subset of m
// rows each, under the kernel (x.y / F + 1)^3: the sums of k(x, x') and k(y, y') without diagonals
// / (m - 1), less 2 / m times the sum of k(x, y). In float64.
double kernel_distance(const FeatureSets& sets, const Subset& subset);

// How the kernel inception distance is estimated (Binkowski et al. 2018, sec. 4); the numbers are
// those of the published evaluations.
struct KidOptions {
  int64_t subsets = 100;
  int64_t most = 1000;  // rows of a subset: at most this, and at most as many as there are
  uint64_t seed = 0;
};

// Draws subset number k without repetition: a function of the seed, k and the sizes alone.
Subset draw_subset(const FeatureSets& sets, int64_t k, const KidOptions& options);

// Returns the mean of kernel_distance() / m over all subsets. Collective. Needs two rows of each.
double kernel_inception_distance(const FeatureSets& sets,
                                 const KidOptions& options,
                                 const SharedWork& work);

}  // namespace gantrain
