// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/autocast.h"
#include "ops/upfirdn2d/upfirdn2d.h"

namespace gantrain {

// The convolutions behind autocast_conv2d() and autocast_conv_transpose2d(), in the type of their
// operands. On a CPU, float32 convolutions that winograd_pays() expects to gain are computed by
// minimal filtering, and all others by LibTorch, as with KernelSet::kRef. Derivatives of any order
// exist; those of convolutions in groups compute all groups at once.
at::Tensor conv2d(const at::Tensor& x,
                  const at::Tensor& weight,  // [O, I / groups, kh, kw]
                  const at::Tensor& bias,
                  const ConvPlace& place);
at::Tensor conv_transpose2d(const at::Tensor& x,
                            const at::Tensor& weight,  // [I, O / groups, kh, kw]
                            const at::Tensor& bias,
                            const ConvPlace& place);

// x [N, C, H, W] in the layout in which convolutions run fastest where it lies, and which they pass
// on: channels-last on a CPU, unless train.kernels=ref; x itself elsewhere.
at::Tensor in_fast_layout(const at::Tensor& x);

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
