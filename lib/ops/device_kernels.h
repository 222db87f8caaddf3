// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>

#include "core/tensors.h"
#include "ops/bias_act.h"
#include "ops/upfirdn2d.h"

namespace gantrain {

struct FusedKernels;

// BiasAct with its defaults filled in. A clamp of infinity means that nothing is clamped.
struct BiasActNumbers {
  Activation act;
  int64_t dim;
  double alpha, gain, clamp;
};

// The derivatives of bias_act by x and by b, times dy. db is undefined where nobody asked for it.
struct BiasActGradients {
  at::Tensor dx, db;
};

// Says what to draw. The numbers drawn (ops/draws.h) depend on these members alone, on every device
// and with any number of threads. They are the draws of a Stream (core/random.h) whose purpose has
// the hash `purpose`.
enum class Distribution { kNormal, kUniform, kBits };
struct DrawNumbers {
  at::Tensor key;  // int64 [2] on the device of the draws: seed, iteration
  int64_t phase;
  uint64_t purpose;  // hash64 of the purpose's name
  Samples samples;
  int64_t each;  // how many numbers each sample has
  Distribution distribution;
};

// The functions that a device must have for KernelSet::kAuto. Autograd is built on top of them, so
// that none of them has to be differentiable itself. Every result is a new tensor of the type of
// the first tensor argument, computed in float32 at least. Arguments are float64, float32, float16
// or bfloat16 with any strides. draw() has types of its own.
struct DeviceKernels {
  // f is [h, w], float32 or wider, on x's device. Both sides of the result are at least 1 pixel.
  at::Tensor (*upfirdn2d)(const at::Tensor& x, const at::Tensor& f, const UpFirDn& how);

  // b is [x.size(dim)] of x's type, or undefined.
  at::Tensor (*bias_act)(const at::Tensor& x, const at::Tensor& b, const BiasActNumbers& how);

  // Returns dx, the derivative of bias_act by x, times dy: dy * gain * f', and 0 where |y| reached
  // the clamp. f' is the activation's derivative, computed from x + b or from t = y / gain. `from`
  // is the tensor that saved_by(how) names: y, or x (then with b), or undefined. Where sum_to_bias,
  // also db, the sum of dx over all axes but how.dim. dx may be dy itself where they are equal.
  BiasActGradients (*bias_act_gradient)(const at::Tensor& dy,
                                        const at::Tensor& from,
                                        const at::Tensor& b,
                                        const BiasActNumbers& how,
                                        bool sum_to_bias);

  // Returns the derivative of sum(v * dx) by `from`, dx as bias_act_gradient computes it: v * dy *
  // gain * df'/dx where x is saved, v * dy * df'/dt where y is saved, and 0 where the value was
  // clamped. It is called only for activations with has_second_derivative().
  at::Tensor (*bias_act_double_backward)(const at::Tensor& v,
                                         const at::Tensor& dy,
                                         const at::Tensor& from,
                                         const at::Tensor& b,
                                         const BiasActNumbers& how);

  // Draws a contiguous [samples.count, each] tensor on the key's device without waiting for the
  // device: float32 N(0, 1), float32 uniform in [0, 1), or 32 random bits as int64. Bits and
  // uniforms are the same on every device; normals agree up to the last bits of log, sin and cos.
  // Draws use this function for KernelSet::kRef too.
  at::Tensor (*draw)(const DrawNumbers& how);

  // Kernels of whole epilogues (ops/fused_kernels.h). Null: those operators are composed.
  const FusedKernels* fused = nullptr;
};

// The tensor that the derivative of bias_act is computed from. Saving the output y lets go of the
// input x, which would otherwise stay in memory until the backward pass.
enum class Saved { kNothing, kOutput, kInput };
Saved saved_by(const BiasActNumbers& how);
bool has_second_derivative(Activation act);                    // false if it is zero everywhere
at::Tensor summed_to_bias(const at::Tensor& dx, int64_t dim);  // over all axes but dim

// Returns the kernels for tensors of that device: those set by set_device_kernels(), else the CPU's
// own, else kComposedKernels.
const DeviceKernels& device_kernels(c10::DeviceType device);

// Sets the kernels of a device. A library of kernels that is loaded while the program runs calls
// this once, before anything is computed. `kernels` must outlive every use.
void set_device_kernels(c10::DeviceType device, const DeviceKernels& kernels);

// Kernels composed of LibTorch's operators, which run on any device.
extern const DeviceKernels kComposedKernels;

// Implementations for the CPU. float32 tensors go to lib/cpu_kernels, others to kComposedKernels.
// No bit of a result depends on the number of threads.
at::Tensor cpu_upfirdn2d(const at::Tensor& x, const at::Tensor& f, const UpFirDn& how);
at::Tensor cpu_bias_act(const at::Tensor& x, const at::Tensor& b, const BiasActNumbers& how);
BiasActGradients cpu_bias_act_gradient(const at::Tensor& dy,
                                       const at::Tensor& from,
                                       const at::Tensor& b,
                                       const BiasActNumbers& how,
                                       bool sum_to_bias);
at::Tensor cpu_bias_act_double_backward(const at::Tensor& v,
                                        const at::Tensor& dy,
                                        const at::Tensor& from,
                                        const at::Tensor& b,
                                        const BiasActNumbers& how);

// Implementations of DeviceKernels::draw: one composed of LibTorch's operators for any device, and
// one for the CPU.
at::Tensor composed_draw(const DrawNumbers& how);
at::Tensor cpu_draw(const DrawNumbers& how);

}  // namespace gantrain
