// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>

#include "core/tensors.h"
#include "ops/bias_act.h"
#include "ops/upfirdn2d.h"

namespace gantrain {

// BiasAct with its defaults filled in. No clamp is infinity.
struct BiasActNumbers {
  Activation act;
  int64_t dim;
  double alpha, gain, clamp;
};

// What is drawn (ops/draws.h) is a function of these numbers alone, on every device and in any
// number of threads: Stream's draws (core/random.h) of a purpose that hashes to `purpose`.
enum class Distribution { kNormal, kUniform, kBits };
struct DrawNumbers {
  at::Tensor key;  // int64 [2] on the device of the draws: seed, iteration
  int64_t phase;
  uint64_t purpose;  // hash64 of its name
  Samples samples;
  int64_t each;  // numbers a sample
  Distribution distribution;
};

// What a device must be able to compute for KernelSet::kAuto; autograd is built on top of it, so
// that none of these needs a derivative. All results are new tensors of x's (dy's, v's) type;
// arithmetic in float32 at least. float64, float32, float16 and bfloat16, any strides.
struct DeviceKernels {
  // f is [h, w], float32 or wider, on x's device; a size of the result is at least 1.
  at::Tensor (*upfirdn2d)(const at::Tensor& x, const at::Tensor& f, const UpFirDn& how);

  // b is [x.size(dim)] of x's type or undefined.
  at::Tensor (*bias_act)(const at::Tensor& x, const at::Tensor& b, const BiasActNumbers& how);

  // `from` is what saved_by(how) says: y, or x with b, or undefined. With f the activation as a
  // function of x + b and t = y / gain: dy * gain * f', and 0 where |y| reached the clamp.
  at::Tensor (*bias_act_gradient)(const at::Tensor& dy,
                                  const at::Tensor& from,
                                  const at::Tensor& b,
                                  const BiasActNumbers& how);

  // The derivative of sum(v * bias_act_gradient(dy, from, b)) by `from`: v * dy * gain * df'/dx
  // where x is saved, v * dy * df'/dt where y is; 0 where clamped. Called only for activations of
  // which has_second_derivative() is true.
  at::Tensor (*bias_act_double_backward)(const at::Tensor& v,
                                         const at::Tensor& dy,
                                         const at::Tensor& from,
                                         const at::Tensor& b,
                                         const BiasActNumbers& how);

  // [samples.count, each], contiguous, on the key's device, waiting for nothing: float32 N(0, 1) or
  // uniform in [0, 1), or 32 random bits as int64. Bits and uniforms are the same on every device,
  // normals up to the last bits of log, sin and cos. Whatever the set of kernels in use.
  at::Tensor (*draw)(const DrawNumbers& how);
};

// What the derivative of bias_act is computed from. Saving y alone frees x, which the caller's
// convolution made.
enum class Saved { kNothing, kOutput, kInput };
Saved saved_by(const BiasActNumbers& how);
bool has_second_derivative(Activation act);  // its second derivative is not zero everywhere

// The kernels for tensors of that device: the CPU's, those given below, or compositions of
// LibTorch's operators, which run anywhere.
const DeviceKernels& device_kernels(c10::DeviceType device);

// For a library of kernels that is loaded while the program runs: whoever loads it calls this once,
// before anything is computed. `kernels` must outlive every use.
void set_device_kernels(c10::DeviceType device, const DeviceKernels& kernels);

extern const DeviceKernels kComposedKernels;

// Two implementations of DeviceKernels::draw: for any device, and for the CPU.
at::Tensor composed_draw(const DrawNumbers& how);
at::Tensor cpu_draw(const DrawNumbers& how);

}  // namespace gantrain
