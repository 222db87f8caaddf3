// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/bias_act/activation.h"
#include "ops/gpu/planes_walk.h"

namespace gantrain::cuda_kernels {

// BiasActNumbers (ops/device_kernels.h) and the maps that they are applied to. All arrays lie in
// memory as `maps` says; those of type `type` are of that type. Without a bias and without a sum to
// one, any dense array is one plane of one channel.
struct BiasActTask {
  Type type;
  Maps maps;
  Activation act;  // of two lines
  double alpha, gain, clamp;
  const void* b;  // [channels]; null: no bias
};

// y = clamp(gain * act(x + b)).
void bias_act(const BiasActTask& task, const void* x, void* y, Stream stream);

// dx = dy * gain * f', and 0 where |y| reached the clamp. y is null where f' is 1. dx may be null
// if only the sums are wanted. The sums of dx over pixels, Wide<type> [gradient_parts().count()],
// are left in `sums` for sum_parts(); null: nobody wants them.
struct BiasActGradientArrays {
  const void *dy, *y;
  void *dx, *sums;
};
void bias_act_gradient(const BiasActTask& task, const BiasActGradientArrays& arrays, Stream stream);
Parts gradient_parts(const BiasActTask& task, const BiasActGradientArrays& arrays);

// Whether these calls move 16 bytes at a time.
bool packed(const BiasActTask& task, const void* x, const void* y);
bool packed(const BiasActTask& task, const BiasActGradientArrays& arrays);

}  // namespace gantrain::cuda_kernels
