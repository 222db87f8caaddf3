// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "metrics/feature_sets.h"
#include "metrics/shared_work.h"

namespace gantrain {

// Metrics of the manifolds that balls around feature vectors make: each ball reaches to the
// centre's k-th nearest neighbour in its own set. Distances are computed in float64, in blocks of
// 32 MB, so sets of any size need no more memory than their features. Collective.

// Returns the squared distances of the rows of a and b, [N_a, N_b] float64. Distances that are
// nothing but rounding errors, as those of equal rows, are 0.
at::Tensor squared_distances(const at::Tensor& a, const at::Tensor& b);

// Returns the squared radius of each row's ball, [N] float64: the distance to its k-th nearest
// other row, which is the (k + 1)-th smallest distance with its own. Needs more than k rows.
at::Tensor squared_radii(const at::Tensor& features, int64_t k, const SharedWork& work);

// Kynkaanniemi et al. 2019, eq. 1 and 2: the share of fakes inside any ball of the reals, and of
// reals inside any ball of the fakes; the border belongs to a ball.
struct PrecisionRecall {
  double precision = 0;
  double recall = 0;
};
PrecisionRecall precision_recall(const FeatureSets& sets, int64_t k, const SharedWork& work);

// Naeem et al. 2020, eq. 4 and 5: how many balls of the reals a fake lies in, on average, divided
// by k; and the share of reals whose ball has a fake in it. The border does not belong to a ball.
struct DensityCoverage {
  double density = 0;
  double coverage = 0;
};
DensityCoverage density_coverage(const FeatureSets& sets, int64_t k, const SharedWork& work);

}  // namespace gantrain
