// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "metrics/shared_work.h"

namespace gantrain {

// The Frechet distance between two Gaussians that have the moments of two sets of features (Heusel
// et al. 2017): FID where the features are Inception's. Everything is computed in float64.

// Sums over a set of feature vectors. An object adds up the vectors of one rank; sum_() makes the
// sums those of all ranks.
class FeatureSums {
 public:
  FeatureSums() = default;
  // Makes the sums that to_tensor() returned.
  explicit FeatureSums(const at::Tensor& packed);

  void add(const at::Tensor& features);  // [N, F], any floating type
  void sum_(const SharedWork& work);     // over all ranks; collective

  int64_t count() const { return count_; }
  int64_t features() const { return total_.defined() ? total_.size(0) : 0; }
  at::Tensor mean() const;        // [F]
  at::Tensor covariance() const;  // [F, F]: E[x x^T] - mean mean^T, so divided by N, not N - 1
  // Returns all sums as one float64 tensor [F + 1, F + 1], on the CPU.
  at::Tensor to_tensor() const;

 private:
  int64_t count_ = 0;
  at::Tensor total_;     // of x, [F]
  at::Tensor products_;  // of x x^T, [F, F]
};

// Mean [F] and covariance [F, F], float64.
struct Gaussian {
  at::Tensor mean;
  at::Tensor covariance;
};

// Returns |m_a - m_b|^2 + tr(S_a + S_b - 2 (S_a S_b)^(1/2)), never negative. The trace of the root
// is the sum of the singular values of S_a^(1/2) S_b^(1/2), which is real and stable where
// covariances are singular: fewer pictures than features.
double frechet_distance(const Gaussian& a, const Gaussian& b);

}  // namespace gantrain
