// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace gantrain {

// The numbers of modulated_act() (ops/modulated_act.h): out = clamp(gain * act(u)), u = scale * d *
// y + strength * noise + bias, act(u) = u where u > 0, else alpha * u. gain > 0; a clamp of
// infinity means none.
struct ActNumbers {
  double scale, alpha, gain, clamp;

  // Whether the derivative of out by u is `gain` everywhere.
  bool constant_slope() const;
};

// Its tensors: d [N, C], strength [] or [C], bias [C]; noise [n, H, W] with n = 1 or N. Any of them
// may be undefined.
struct ActTensors {
  at::Tensor d, noise, strength, bias;
};

// Derivatives by the terms; those that were not asked for are undefined.
struct ActDerivatives {
  at::Tensor y, d, strength, bias;
};
struct ActWanted {
  bool d, strength, bias;
};

// What the first derivative is computed from. y may be undefined where no derivative by d is asked
// for, out where the slope is constant.
struct ActPoint {
  at::Tensor grad, y, out;
};

// Kernels that do in one pass what takes several of LibTorch's operators, for float32 tensors with
// any strides. Results are new contiguous tensors and do not depend on the number of threads.
// Autograd is built on top of them.
struct FusedKernels {
  at::Tensor (*act)(const at::Tensor& y, const ActTensors& t, const ActNumbers& how);
  ActDerivatives (*act_gradient)(const ActPoint& at,
                                 const ActTensors& t,
                                 const ActNumbers& how,
                                 const ActWanted& wanted);
  // The derivatives by grad, y and d of the sum of the products of `along` with the first
  // derivatives. Members of `along` may be undefined. Of y and d only what is wanted is computed.
  struct SecondWanted {
    bool y, d;
  };
  std::tuple<at::Tensor, at::Tensor, at::Tensor> (*act_second)(const ActPoint& at,
                                                               const ActTensors& t,
                                                               const ActNumbers& how,
                                                               const ActDerivatives& along,
                                                               const SecondWanted& wanted);

  // Over the last two axes of a and b [O, I, h, w]: the sums of a * b, [O, I].
  at::Tensor (*plane_products)(const at::Tensor& a, const at::Tensor& b);
  // factor * w * by[..., None, None] for w [O, I, h, w] and by [O, I].
  at::Tensor (*scaled_planes)(const at::Tensor& w, const at::Tensor& by, double factor);

  // minibatch_std() with groups of g samples; g divides N, `channels` divides C.
  at::Tensor (*minibatch_std)(const at::Tensor& x, int64_t g, int64_t channels, double eps);
  at::Tensor (*minibatch_std_gradient)(
      const at::Tensor& dout, const at::Tensor& x, int64_t g, int64_t channels, double eps);

  // pixel_norm() along axis 1 of x [N, C, H, W].
  at::Tensor (*pixel_norm)(const at::Tensor& x, double eps);
  at::Tensor (*pixel_norm_gradient)(const at::Tensor& dout, const at::Tensor& x, double eps);

  // adain(): the result, and each plane's mean and 1 / standard deviation, [N, C], from which the
  // derivatives by x and the style are computed.
  std::tuple<at::Tensor, at::Tensor, at::Tensor> (*adain)(const at::Tensor& x,
                                                          const at::Tensor& style,
                                                          double eps);
  std::tuple<at::Tensor, at::Tensor> (*adain_gradient)(const at::Tensor& dout,
                                                       const at::Tensor& x,
                                                       const at::Tensor& style,
                                                       const at::Tensor& mean,
                                                       const at::Tensor& inverse);
};

extern const FusedKernels kCpuFusedKernels;

// Returns the fused kernels that compute with x in `type`: those of x's device where the type is
// float32 and KernelSet::kAuto is in use. Null: operators are to be composed.
const FusedKernels* fused_kernels_for(const at::Tensor& x, at::ScalarType type);
inline const FusedKernels* fused_kernels_for(const at::Tensor& x) {
  return fused_kernels_for(x, x.scalar_type());
}
// Returns the fused kernels of x's device, which has some, whatever is in use by now: a backward
// pass stays with its forward pass's kernels.
const FusedKernels& fused_kernels_of(const at::Tensor& x);

}  // namespace gantrain
