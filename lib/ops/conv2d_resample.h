// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/upfirdn2d.h"

namespace gantrain {

struct ConvResample {
  int64_t up = 1, down = 1;
  Padding2d padding;  // in the up-sampled image, before the convolution
  int64_t groups = 1;
  bool flip_weight = true;  // true: correlation, what torch's conv2d does; false: convolution
  bool flip_filter = false;
};

// Convolves x [N, I, H, W] with w [O, I/groups, k, k] and up-samples or down-samples by the FIR
// filter f, in the order that costs least (Karras et al. 2020a, app. B). f may be undefined where
// up and down are 1.
at::Tensor conv2d_resample(const at::Tensor& x,
                           const at::Tensor& w,
                           const at::Tensor& f,
                           const ConvResample& how);

}  // namespace gantrain
