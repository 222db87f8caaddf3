// SPDX-License-Identifier: Apache-2.0
#include "train/average/power_average.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/torch.h"
#include "ops/adam/adam.h"

namespace gantrain {

double gamma_of_length(double length) {
  TORCH_CHECK(length > 0 && length <= kLongestAverage * (1 + 1e-12), "length ", length);
  const double s = 1 / (length * length);
  // Right of the largest root the polynomial is convex, so that Newton's steps end there.
  double gamma = std::sqrt(s);
  for (int step = 0; step < 200; ++step) {
    const double value = ((gamma + 7) * gamma + (16 - s)) * gamma + (12 - s);
    const double slope = (3 * gamma + 14) * gamma + (16 - s);
    const double next = gamma - value / slope;
    if (std::abs(next - gamma) <= 1e-14 * (1 + std::abs(gamma))) return next;
    gamma = next;
  }
  return gamma;
}

double power_weight(double gamma, int64_t images_seen, int64_t batch) {
  const auto now = static_cast<double>(images_seen + batch);
  return -std::expm1((gamma + 1) * std::log1p(-static_cast<double>(batch) / now));
}

namespace {

// The inner product of two profiles: the integral of (a + 1) (b + 1) u^(a + b) / (ta^(a + 1) tb^(b
// + 1)) up to the earlier of the times ta and tb.
double product(const PowerProfile& x, const PowerProfile& y) {
  const auto& [earlier, later] = x.images < y.images ? std::pair(x, y) : std::pair(y, x);
  const double share = std::pow(earlier.images / later.images, later.gamma);
  return (x.gamma + 1) * (y.gamma + 1) * share / ((x.gamma + y.gamma + 1) * later.images);
}

}  // namespace

Combination combine_profiles(const std::vector<PowerProfile>& kept, const PowerProfile& wanted) {
  const auto count = static_cast<int64_t>(kept.size());
  const double unit = product(wanted, wanted);
  at::Tensor A = torch::zeros({count + 1, count + 1}, at::kDouble);
  at::Tensor b = torch::ones({count + 1, 1}, at::kDouble);
  auto a_at = A.accessor<double, 2>();
  auto b_at = b.accessor<double, 2>();
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < count; ++j)
      a_at[i][j] = product(kept[static_cast<size_t>(i)], kept[static_cast<size_t>(j)]) / unit;
    a_at[i][count] = a_at[count][i] = 1;  // the sum of the factors, with its multiplier
    b_at[i][0] = product(kept[static_cast<size_t>(i)], wanted) / unit;
  }
  // Profiles of near times are nearly the same: what cannot be told apart is shared out evenly.
  constexpr double kSmallest = 1e-14;
  const at::Tensor solved = std::get<0>(at::linalg_lstsq(A, b, kSmallest, "gelsd"));
  const at::Tensor x = solved.narrow(0, 0, count);
  const double square = 1 - 2 * (b.narrow(0, 0, count) * x).sum().item<double>() +
                        x.t().mm(A.narrow(0, 0, count).narrow(1, 0, count)).mm(x).item<double>();
  Combination found;
  found.misfit = std::sqrt(std::max(square, 0.0));
  const auto factor = x.accessor<double, 2>();
  for (int64_t i = 0; i < count; ++i) found.factors.push_back(factor[i][0]);
  return found;
}

PowerAverages::PowerAverages(NamedTensors parameters, const std::vector<double>& lengths)
    : parameters_(std::move(parameters)), lengths_(lengths) {
  TORCH_CHECK(!parameters_.empty(), "a network without parameters");
  const at::TensorOptions like = parameters_.front().second.options().requires_grad(false);
  for (const double length : lengths_) {
    std::vector<at::Tensor>& averages = averages_.emplace_back();
    for (const auto& [name, parameter] : parameters_)
      averages.push_back(parameter.detach().clone());
    const auto weight = [this, gamma = gamma_of_length(length)](int64_t images_seen) {
      return power_weight(gamma, images_seen, batch_);
    };
    weights_.push_back(std::make_unique<DeviceNumber>(weight, like));
  }
}

void PowerAverages::update(int64_t images_seen_before, int64_t batch) {
  const torch::NoGradGuard no_grad;
  batch_ = batch;
  std::vector<at::Tensor> now;
  for (const auto& [name, parameter] : parameters_) now.push_back(parameter);
  for (size_t i = 0; i < averages_.size(); ++i) {
    weights_[i]->advance_to(images_seen_before);
    lerp_(averages_[i], now, *weights_[i]);
  }
}

NamedTensors PowerAverages::of(size_t length) const {
  NamedTensors all;
  for (size_t i = 0; i < parameters_.size(); ++i)
    all.emplace_back(parameters_[i].first, averages_.at(length)[i]);
  return all;
}

}  // namespace gantrain
