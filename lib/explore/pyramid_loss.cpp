// SPDX-License-Identifier: Apache-2.0
#include "explore/pyramid_loss.h"

#include <algorithm>

#include "core/torch.h"

namespace gantrain {

namespace {

constexpr int64_t kSmallest = 4;  // pixels of a level's shorter side

bool can_halve(const at::Tensor& pictures) {
  return std::min(pictures.size(2), pictures.size(3)) >= 2 * kSmallest;
}

// Pictures are cut off at both ends of the range when they become bytes: what lies beyond a target
// there is no difference.
at::Tensor cut_off(const at::Tensor& pictures, const at::Tensor& targets) {
  constexpr double kEnd = 1 - 1.0 / 255;
  const at::Tensor beyond = (targets.ge(kEnd).logical_and(pictures.gt(targets)))
                                .logical_or(targets.le(-kEnd).logical_and(pictures.lt(targets)));
  return torch::where(beyond, targets, pictures);
}

at::Tensor halved(const at::Tensor& pictures) { return torch::avg_pool2d(pictures, 2); }

}  // namespace

PyramidLoss::PyramidLoss(const at::Tensor& targets) {
  levels_.push_back(targets);
  while (can_halve(levels_.back())) levels_.push_back(halved(levels_.back()));
}

at::Tensor PyramidLoss::operator()(const at::Tensor& pictures, const at::Tensor& rows) const {
  at::Tensor sum, level = cut_off(pictures, levels_.front().index_select(0, rows));
  for (size_t i = 0; i < levels_.size(); ++i) {
    if (i > 0) level = halved(level);
    const at::Tensor difference = level - levels_[i].index_select(0, rows);
    const at::Tensor mean = difference.square().mean({1, 2, 3});
    sum = sum.defined() ? sum + mean : mean;
  }
  return sum;
}

}  // namespace gantrain
