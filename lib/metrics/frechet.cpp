// SPDX-License-Identifier: Apache-2.0
#include "metrics/frechet.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/torch.h"

namespace gantrain {

namespace {

// A factor R [F, r] of a covariance R R^T: its eigenvectors times the roots of its eigenvalues.
// Eigenvalues that are rounding errors of zeros count as zeros; their roots would not be small.
at::Tensor root_of(const at::Tensor& covariance) {
  const auto [values, vectors] = at::linalg_eigh(0.5 * (covariance + covariance.t()));
  const double largest = std::max(values.max().item<double>(), 0.0);
  const double noise =
      static_cast<double>(values.size(0)) * std::numeric_limits<double>::epsilon() * largest;
  const at::Tensor kept = values.gt(noise).nonzero().squeeze(1);
  return vectors.index_select(1, kept) * values.index_select(0, kept).sqrt();
}

}  // namespace

FeatureSums::FeatureSums(const at::Tensor& packed) {
  const int64_t features = packed.size(0) - 1;
  count_ = std::llround(packed[features][features].item<double>());
  total_ = packed.narrow(0, features, 1).narrow(1, 0, features).reshape(-1).clone();
  products_ = packed.narrow(0, 0, features).narrow(1, 0, features).clone();
}

void FeatureSums::add(const at::Tensor& features) {
  const at::Tensor x = features.to(at::kCPU, at::kDouble);
  if (!total_.defined()) {
    total_ = at::zeros({x.size(1)}, x.options());
    products_ = at::zeros({x.size(1), x.size(1)}, x.options());
  }
  count_ += x.size(0);
  total_ += x.sum(0);
  products_.addmm_(x.t(), x);
}

void FeatureSums::sum_(const SharedWork& work) {
  if (work.world() == 1) return;
  // A rank without pictures does not know the number of features.
  at::Tensor sizes = at::zeros({work.world()}, at::kLong);
  sizes[work.rank()] = features();
  sum_over_ranks_(work, sizes);
  const int64_t size = sizes.max().item<int64_t>() + 1;
  at::Tensor packed = count_ == 0 ? at::zeros({size, size}, at::kDouble) : to_tensor();
  sum_over_ranks_(work, packed);
  *this = FeatureSums(packed);
}

at::Tensor FeatureSums::mean() const { return total_ / count_; }

at::Tensor FeatureSums::covariance() const {
  const at::Tensor m = mean();
  return products_ / count_ - m.outer(m);
}

at::Tensor FeatureSums::to_tensor() const {
  const int64_t f = features();
  at::Tensor packed = at::zeros({f + 1, f + 1}, at::kDouble);
  packed.narrow(0, 0, f).narrow(1, 0, f).copy_(products_);
  packed.narrow(0, f, 1).narrow(1, 0, f).copy_(total_);
  packed[f][f] = static_cast<double>(count_);
  return packed;
}

double frechet_distance(const Gaussian& a, const Gaussian& b) {
  const at::Tensor of_a = root_of(a.covariance), of_b = root_of(b.covariance);
  double root = 0;
  if (of_a.size(1) > 0 && of_b.size(1) > 0)
    root = at::linalg_svdvals(of_a.t().mm(of_b)).sum().item<double>();
  const double distance = (a.mean - b.mean).square().sum().item<double>() +
                          a.covariance.trace().item<double>() +
                          b.covariance.trace().item<double>() - 2 * root;
  return std::max(distance, 0.0);
}

}  // namespace gantrain
