// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu_kernels/activation.h"
#include "cuda_kernels/planes_walk.h"

namespace gantrain::cuda_kernels {

// BiasActNumbers (ops/device_kernels.h) and the maps that they are applied to. All arrays lie in
// memory as `maps` says; those of type `type` are of that type. Without a bias and without a sum to
// one, any dense array is one plane of one channel.
struct BiasActTask {
  Type type;
  Maps maps;
  Activation act;
  double alpha, gain, clamp;
  const void* b;  // [channels]; null: no bias
};

// y = clamp(gain * act(x + b)).
void bias_act(const BiasActTask& task, const void* x, void* y, Stream stream);

// dx = dy * gain * f', and 0 where |y| reached the clamp. `from` is y, or x for swish; null: f' is
// 1. dx may be null if only the sums are wanted. The sums of dx over pixels, Wide<type>
// [gradient_parts().count()], are left in `sums` for sum_parts(); null: nobody wants them.
struct BiasActGradientArrays {
  const void *dy, *from;
  void *dx, *sums;
};
void bias_act_gradient(const BiasActTask& task, const BiasActGradientArrays& arrays, Stream stream);
Parts gradient_parts(const BiasActTask& task, const BiasActGradientArrays& arrays);

// v * dy times the derivative of gain * f' by x for swish, and of f' by t = y / gain for others.
// Activations of two straight lines have none.
struct BiasActSecondArrays {
  const void *v, *dy, *from;
  void* result;
};
void bias_act_double_backward(const BiasActTask& task,
                              const BiasActSecondArrays& arrays,
                              Stream stream);

// Whether these calls move 16 bytes at a time.
bool packed(const BiasActTask& task, const void* x, const void* y);
bool packed(const BiasActTask& task, const BiasActGradientArrays& arrays);
bool packed(const BiasActTask& task, const BiasActSecondArrays& arrays);

}  // namespace gantrain::cuda_kernels
