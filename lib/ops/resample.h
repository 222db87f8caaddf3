// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "core/device_number.h"

namespace gantrain {

// Resampling by two as progressive growing has it (Karras et al. 2018a, fig. 2), on [N, C, H, W].
// All of it is differentiable any number of times.

// Each pixel four times: [N, C, 2H, 2W].
at::Tensor nearest_up(const at::Tensor& x);
// Means of 2x2 pixels: [N, C, H/2, W/2]; H and W even.
at::Tensor box_down(const at::Tensor& x);
// [1, 2, 1] x [1, 2, 1] / 16, zeros outside (Karras et al. 2019, sec. 2: bilinear resampling is
// nearest_up then blur, blur then box_down).
at::Tensor blur(const at::Tensor& x);

// 3x3 convolution of nearest_up(x), and box_down of the 3x3 convolution of x, padding 1; weight
// [O, I, 3, 3]. Large pictures take one 4x4 convolution of stride 2, with 4/9 of the operations.
at::Tensor conv2d_up(const at::Tensor& x, const at::Tensor& weight);
at::Tensor conv2d_down(const at::Tensor& x, const at::Tensor& weight);

// alpha * x + (1 - alpha) * nearest_up(box_down(x)): real pictures while a level fades in, which
// then hold no more detail than the generated ones.
at::Tensor fade_reals(const at::Tensor& x, const DeviceNumber& alpha);

}  // namespace gantrain
