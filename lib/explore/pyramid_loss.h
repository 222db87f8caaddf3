// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace gantrain {

// The distance of pictures to fixed targets on several scales, so that shapes far from their place
// draw the picture towards them too: the mean squared difference at full size, at half of it, and
// so on while both sides have at least 4 pixels. Where a target is black or white, what is blacker
// or whiter is no difference.
class PyramidLoss {
 public:
  // targets: [N, C, H, W] float32 in [-1, 1].
  explicit PyramidLoss(const at::Tensor& targets);

  // Returns [M], the loss of each of `pictures` [M, C, H, W] towards the target of the same row,
  // `rows` int64 [M].
  at::Tensor operator()(const at::Tensor& pictures, const at::Tensor& rows) const;

 private:
  std::vector<at::Tensor> levels_;  // the targets, each half as large as the one before
};

}  // namespace gantrain
