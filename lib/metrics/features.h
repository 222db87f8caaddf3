// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "metrics/pictures.h"

namespace gantrain {

// What a detector sees in two sets of pictures: [N, F] each, one row a picture, any floating type.
struct FeatureSets {
  at::Tensor reals;
  at::Tensor fakes;
};

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
  at::Tensor sample_covariance() const;  // [F, F]: divided by N - 1
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

// Parts of the inception score of the published evaluations.
inline constexpr int64_t kInceptionSplits = 10;

// Mean and population standard deviation over the splits.
struct InceptionScore {
  double mean = 0;
  double deviation = 0;
};

// Returns exp(mean over pictures of KL(p(y|x) || p(y))) of class probabilities [N, C], computed in
// float64 for each of `splits` parts in order, where p(y) is the part's mean (Salimans et al.
// 2016). A probability of 0 adds nothing. Needs as many pictures as splits.
InceptionScore inception_score(const at::Tensor& probabilities, int64_t splits);

// Metrics of the manifolds that balls around feature vectors make: each ball reaches to the
// centre's k-th nearest neighbour in its own set. Distances are computed in float64, in blocks of
// 32 MB, so sets of any size need no more memory than their features. Collective.

// Returns the squared distances of the rows of a and b, [N_a, N_b] float64. Distances that are
// nothing but rounding errors, as those of equal rows, are 0.
at::Tensor squared_distances(const at::Tensor& a, const at::Tensor& b);

// Returns the squared radius of each row's ball, [N] float64: the distance to its k-th nearest
// other row, which is the (k + 1)-th smallest distance with its own. Needs more than k rows.
at::Tensor squared_radii(const at::Tensor& features, int64_t k, const SharedWork& work);

// The k of precision and recall and of density and coverage in the published evaluations.
inline constexpr int64_t kPrNeighbours = 3, kDcNeighbours = 5;

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

// Returns the numbers of "kid", "pr" or "dc", or of the same with "_lite0", as a line of
// metric-NAME.jsonl has them. Collective.
Json results_of_rows(const std::string& metric,
                     const FeatureSets& sets,
                     uint64_t seed,
                     const SharedWork& work);

class Detector;
class FeatureNetwork;

// What a network sees in a set of pictures.
struct Features {
  FeatureSums sums;
  at::Tensor rows;  // float32 [N, F], one a picture; undefined where they were not asked for
};

// Which pictures are looked at, and what is kept of them.
struct FeaturePlan {
  std::string what;      // for progress and messages: "real pictures"
  int64_t pictures = 0;  // 0, 1, ... pictures - 1
  bool rows = false;
};

// Shows the pictures to the network, in batches whose borders do not depend on the number of
// ranks. Collective.
Features compute_features(Pictures& pictures,
                          FeatureNetwork& network,
                          const FeaturePlan& plan,
                          const SharedWork& work);

// Returns class probabilities of the first `count` pictures, [count, C]. Collective.
at::Tensor compute_probabilities(Pictures& pictures,
                                 Detector& detector,
                                 int64_t count,
                                 const SharedWork& work);

// Does what compute_features() does, once: the result is kept in the folder under the identity of
// the pictures, the network's content and the number of pictures, and read from there the next
// time. Rank 0 alone reads and writes; a file that is broken or of other pictures is replaced, with
// a warning; a folder that cannot be written to costs a warning. Several programs may use a folder
// at once. Collective.
Features cached_features(Pictures& pictures,
                         FeatureNetwork& network,
                         const FeaturePlan& plan,
                         const std::filesystem::path& folder,
                         const SharedWork& work);

}  // namespace gantrain
