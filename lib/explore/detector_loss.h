// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "explore/projector.h"

namespace gantrain {

class Detector;

// Returns the loss of pictures towards `targets` [N, C, H, W] in [-1, 1] by what a detector sees:
// the squared distance of LPIPS vectors where it has them (Zhang et al. 2018), else the squared
// distance of features relative to the targets' squared length. Pictures of more than 256 pixels a
// side are brought to 256 first.
FurtherLoss detector_loss(const std::shared_ptr<Detector>& detector, const at::Tensor& targets);

}  // namespace gantrain
