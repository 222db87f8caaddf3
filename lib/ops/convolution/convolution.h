// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

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

// weight [O, I, k, k] times `factor`, in the type of x, as the weight of a convolution of x. Where
// launches_cost() and that type is a half one, one pass makes it, in the order in which tensor
// cores read it.
at::Tensor convolution_weight(const at::Tensor& weight, double factor, const at::Tensor& x);

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

// The two sides of a convolution: y [N, O, h, w] is the correlation of x [N, I, H, W] with w [O, I,
// k, k], moved by `stride` pixels, x padded by `padding` zeros on each side.
struct ConvGeometry {
  int64_t stride = 1;
  int64_t padding = 0;
};

// Convolutions of float32 tensors on a CPU by minimal filtering (winograd_cpu.h), for
// kernels of 3x3 with stride 1, and of 3x3 or 4x4 with stride 2, where each of the four phases of
// the input has a kernel of 1 or 2 taps along each axis. They have no derivatives of their own. x
// and y are contiguous or channels-last; results have the layout of the given tensor. The result
// does not depend on the number of threads.

// Says whether it can compute such a convolution, in all three directions.
bool winograd_fits(at::IntArrayRef x, at::IntArrayRef w, const ConvGeometry& how);
// Says whether it is expected to be faster than a direct convolution: where there are tiles enough
// to pay for the transformed weights, and channels enough to fill vectors.
bool winograd_pays(at::IntArrayRef x, at::IntArrayRef w, const ConvGeometry& how);

// Returns y.
at::Tensor winograd_forward(const at::Tensor& x, const at::Tensor& w, const ConvGeometry& how);
// Returns the gradient by x, of the sizes `x`.
at::Tensor winograd_input_gradient(const at::Tensor& dy,
                                   const at::Tensor& w,
                                   at::IntArrayRef x,
                                   const ConvGeometry& how);
// Returns the gradient by w, of the sizes `w`.
at::Tensor winograd_weight_gradient(const at::Tensor& x,
                                    const at::Tensor& dy,
                                    at::IntArrayRef w,
                                    const ConvGeometry& how);

}  // namespace gantrain
