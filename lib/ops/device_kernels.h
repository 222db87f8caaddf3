// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/DeviceType.h>

#include <cstdint>
#include <string>
#include <tuple>

#include "core/tensors.h"
#include "ops/affine_warp/affine_warp.h"
#include "ops/bias_act/bias_act.h"
#include "ops/drawn_matrices/drawn_matrices.h"
#include "ops/filtered_lrelu/filtered_lrelu.h"
#include "ops/upfirdn2d/upfirdn2d.h"

namespace gantrain {

struct FusedKernels;

// BiasAct with its defaults filled in. A clamp of infinity means that nothing is clamped.
struct BiasActNumbers {
  Activation act;
  int64_t dim;
  double alpha, gain, clamp;

  // Whether the derivative of bias_act by x is `gain` everywhere.
  bool constant_slope() const;
};

// The derivatives of bias_act by x and by b, times dy. db is undefined where nobody asked for it.
struct BiasActGradients {
  at::Tensor dx, db;
};

// Says what to draw. The numbers drawn (ops/draws/draws.h) depend on these members alone, on every
// device and with any number of threads. They are the draws of a Stream (core/random.h) whose
// purpose has the hash `purpose`.
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

  // The activation is one of two straight lines. b is [x.size(dim)] of x's type, or undefined.
  at::Tensor (*bias_act)(const at::Tensor& x, const at::Tensor& b, const BiasActNumbers& how);

  // Returns dx, the derivative of bias_act by x, times dy: dy * gain * f', and 0 where |y| reached
  // the clamp. f' is the activation's derivative, computed from t = y / gain. y is undefined where
  // the slope is constant. Where sum_to_bias, also db, the sum of dx over all axes but how.dim. dx
  // may be dy itself where they are equal.
  BiasActGradients (*bias_act_gradient)(const at::Tensor& dy,
                                        const at::Tensor& y,
                                        const BiasActNumbers& how,
                                        bool sum_to_bias);

  // Draws a contiguous [samples.count, each] tensor on the key's device without waiting for the
  // device: float32 N(0, 1), float32 uniform in [0, 1), or 32 random bits as int64. Bits and
  // uniforms are the same on every device; normals agree up to the last bits of log, sin and cos.
  // Draws use this function for KernelSet::kRef too.
  at::Tensor (*draw)(const DrawNumbers& how);

  // Kernels of whole epilogues. Null: those operators are composed.
  const FusedKernels* fused = nullptr;
};

at::Tensor summed_to_bias(const at::Tensor& dx, int64_t dim);  // over all axes but dim

// Returns the kernels for tensors of that device: those set by set_device_kernels(), else the CPU's
// own, else kComposedKernels.
const DeviceKernels& device_kernels(c10::DeviceType device);

// Sets the kernels of a device. A library of kernels that is loaded while the program runs calls
// this once, before anything is computed. `kernels` must outlive every use.
void set_device_kernels(c10::DeviceType device, const DeviceKernels& kernels);

// Kernels composed of LibTorch's operators, which run on any device.
extern const DeviceKernels kComposedKernels;

// The numbers of modulated_act() (modulation/modulation.h): out = clamp(gain * act(u)), u =
// scale * d * y + strength * noise + bias, act(u) = u where u > 0, else alpha * u. gain > 0; a
// clamp of infinity means none.
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

// What the first derivative is computed from where the result is also multiplied by the next
// layer's styles: the gradients by the result and by that product, of which one may be undefined,
// and y. Without a product `then` may be undefined.
struct ScaledActPoint {
  at::Tensor grad, grad_scaled, y;
};
struct ScaledActDerivatives {
  ActDerivatives terms;
  at::Tensor then;
};

// A step of filtered_lrelu() (filtered_lrelu/filtered_lrelu.h) or of one of its derivatives, which
// is the same step with the factors and the filters exchanged and slopes that are read.
struct FilteredLreluStep {
  FilteredLrelu how;  // filters are float32 on the maps' device
  bool flip = false;  // filters correlate instead of convolving
  // With slopes that are read: the row and column of them that belongs to the first sample of the
  // higher rate. Where there are none, they are 0.
  int64_t slope_y = 0, slope_x = 0;
};

// What kernels of filtered_lrelu() can be asked for; the rest is composed.
constexpr int64_t kMostFilteredFactor = 8, kMostFilteredTaps = 32;

// Kernels that do in one pass what takes several of LibTorch's operators, for tensors with any
// strides. Feature maps and whatever has their shape are float32 or, where half_types says so,
// float16 or bfloat16, all those of a call alike. d, noise, strength, bias and the derivatives by
// them are float32. Results are new tensors and do not depend on the number of threads; maps lie in
// memory as those that they are computed from. Autograd is built on top of these kernels. Null
// members have no kernel: the operator is composed.
struct FusedKernels {
  bool half_types = false;

  at::Tensor (*act)(const at::Tensor& y, const ActTensors& t, const ActNumbers& how) = nullptr;
  ActDerivatives (*act_gradient)(const ActPoint& at,
                                 const ActTensors& t,
                                 const ActNumbers& how,
                                 const ActWanted& wanted) = nullptr;
  // The derivatives by grad, y and d of the sum of the products of `along` with the first
  // derivatives. Members of `along` may be undefined. Of y and d only what is wanted is computed.
  struct SecondWanted {
    bool y, d;
  };
  std::tuple<at::Tensor, at::Tensor, at::Tensor> (*act_second)(const ActPoint& at,
                                                               const ActTensors& t,
                                                               const ActNumbers& how,
                                                               const ActDerivatives& along,
                                                               const SecondWanted& wanted) =
      nullptr;

  // act() + added, which is like y, in one rounding.
  at::Tensor (*act_added)(const at::Tensor& y,
                          const ActTensors& t,
                          const ActNumbers& how,
                          const at::Tensor& added) = nullptr;

  // act(), undefined unless `both`, and act() * then, `then` being [N, C].
  std::tuple<at::Tensor, at::Tensor> (*act_scaled)(const at::Tensor& y,
                                                   const ActTensors& t,
                                                   const ActNumbers& how,
                                                   const at::Tensor& then,
                                                   bool both) = nullptr;
  ScaledActDerivatives (*act_scaled_gradient)(const ScaledActPoint& at,
                                              const ActTensors& t,
                                              const ActNumbers& how,
                                              const at::Tensor& then,
                                              const ActWanted& wanted,
                                              bool wants_then) = nullptr;

  // Over the last two axes of a and b [O, I, h, w]: the sums of a * b, [O, I], of a's type.
  at::Tensor (*plane_products)(const at::Tensor& a, const at::Tensor& b) = nullptr;
  // factor * w * by[..., None, None] for w [O, I, h, w] and by [O, I].
  at::Tensor (*scaled_planes)(const at::Tensor& w, const at::Tensor& by, double factor) = nullptr;

  // minibatch_std() with groups of g samples; g divides N, `channels` divides C.
  at::Tensor (*minibatch_std)(const at::Tensor& x,
                              int64_t g,
                              int64_t channels,
                              double eps) = nullptr;
  at::Tensor (*minibatch_std_gradient)(
      const at::Tensor& dy, const at::Tensor& x, int64_t g, int64_t channels, double eps) = nullptr;

  // pixel_norm() along axis 1 of x [N, C, H, W].
  at::Tensor (*pixel_norm)(const at::Tensor& x, double eps) = nullptr;
  at::Tensor (*pixel_norm_gradient)(const at::Tensor& dout,
                                    const at::Tensor& x,
                                    double eps) = nullptr;

  // adain(): the result, and each plane's mean and 1 / standard deviation, [N, C], from which the
  // derivatives by x and the style are computed.
  std::tuple<at::Tensor, at::Tensor, at::Tensor> (*adain)(const at::Tensor& x,
                                                          const at::Tensor& style,
                                                          double eps) = nullptr;
  std::tuple<at::Tensor, at::Tensor> (*adain_gradient)(const at::Tensor& dout,
                                                       const at::Tensor& x,
                                                       const at::Tensor& style,
                                                       const at::Tensor& mean,
                                                       const at::Tensor& inverse) = nullptr;

  // filtered_lrelu() of x [N, C, H, W] with a bias [C] or without one. Where with_slopes, also what
  // the derivatives need: the sign of each sample of the higher rate and whether it was clamped, in
  // a form that only these kernels know, uint8. Factors are at most kMostFilteredFactor, filters
  // have at most kMostFilteredTaps taps along an axis.
  std::tuple<at::Tensor, at::Tensor> (*filtered_lrelu)(const at::Tensor& x,
                                                       const at::Tensor& b,
                                                       const FilteredLreluStep& step,
                                                       bool with_slopes) = nullptr;
  // The same with slopes that such a call returned instead of leaky ReLU and clamp: at the higher
  // rate numbers are multiplied by 1, how.slope or 0, and by how.gain.
  at::Tensor (*filtered_slopes)(const at::Tensor& x,
                                const at::Tensor& slopes,
                                const FilteredLreluStep& step) = nullptr;

  // DeviceKernels::upfirdn2d() + added, which is like it, in one rounding.
  at::Tensor (*upfirdn2d_added)(const at::Tensor& x,
                                const at::Tensor& f,
                                const UpFirDn& how,
                                const at::Tensor& added) = nullptr;

  // affine_warp() of x, float32 or float64, and its adjoint, whose argument has the size of its
  // result. Sums are in one order, without atomic additions.
  at::Tensor (*affine_warp)(const at::Tensor& x, const AffineWarp& how) = nullptr;
  at::Tensor (*affine_warp_adjoint)(const at::Tensor& dy, const AffineWarp& how) = nullptr;

  // The members of Matrices (drawn_matrices/drawn_matrices.h).
  std::tuple<at::Tensor, at::Tensor> (*drawn_matrices)(const at::Tensor& p,
                                                       const DrawnMatrices& how) = nullptr;
};

// Returns the fused kernels that compute with x in `type`: those of x's device where they take that
// type and KernelSet::kAuto is in use. Null: operators are to be composed.
const FusedKernels* fused_kernels_for(const at::Tensor& x, at::ScalarType type);

// Returns whether this one of them is there: has_fused_kernel(&FusedKernels::act, x).
template <class Kernel>
bool has_fused_kernel(Kernel FusedKernels::*kernel, const at::Tensor& x, at::ScalarType type) {
  const FusedKernels* kernels = fused_kernels_for(x, type);
  return kernels != nullptr && kernels->*kernel != nullptr;
}
template <class Kernel>
bool has_fused_kernel(Kernel FusedKernels::*kernel, const at::Tensor& x) {
  return has_fused_kernel(kernel, x, x.scalar_type());
}

// Whether x lies where a launch costs more than a small operator computes, as on a GPU, and
// KernelSet::kAuto is in use. There factors go into as few operators as can take them, with the
// same numbers up to rounding; elsewhere operators stay as they are, to the bit.
bool launches_cost(const at::Tensor& x);

// Returns the fused kernels of x's device, which has some, whatever is in use by now: a backward
// pass stays with its forward pass's kernels.
const FusedKernels& fused_kernels_of(const at::Tensor& x);

// Declares functions like those that a member of a table points to.
template <class Member>
using KernelLike = std::remove_pointer_t<Member>;

// The kernels that are composed, those of the CPU, and those of the CUDA library. On the CPU,
// float32 tensors go to the arithmetic of vector/cpu_kernels.h, others to the composed kernels. No
// bit of a result depends on the number of threads.
KernelLike<decltype(DeviceKernels::upfirdn2d)> composed_upfirdn2d, cpu_upfirdn2d, cuda_upfirdn2d;
KernelLike<decltype(DeviceKernels::bias_act)> composed_bias_act, cpu_bias_act, cuda_bias_act;
KernelLike<decltype(DeviceKernels::bias_act_gradient)> composed_bias_act_gradient,
    cpu_bias_act_gradient, cuda_bias_act_gradient;
KernelLike<decltype(DeviceKernels::draw)> composed_draw, cpu_draw, cuda_draw;

KernelLike<decltype(FusedKernels::act)> cpu_act, cuda_act;
KernelLike<decltype(FusedKernels::act_gradient)> cpu_act_gradient, cuda_act_gradient;
KernelLike<decltype(FusedKernels::act_second)> cpu_act_second, cuda_act_second;
KernelLike<decltype(FusedKernels::act_added)> cuda_act_added;
KernelLike<decltype(FusedKernels::act_scaled)> cuda_act_scaled;
KernelLike<decltype(FusedKernels::act_scaled_gradient)> cuda_act_scaled_gradient;
KernelLike<decltype(FusedKernels::plane_products)> cpu_plane_products, cuda_plane_products;
KernelLike<decltype(FusedKernels::scaled_planes)> cpu_scaled_planes, cuda_scaled_planes;
KernelLike<decltype(FusedKernels::minibatch_std)> cpu_minibatch_std, cuda_minibatch_std;
KernelLike<decltype(FusedKernels::minibatch_std_gradient)> cpu_minibatch_std_gradient,
    cuda_minibatch_std_gradient;
KernelLike<decltype(FusedKernels::pixel_norm)> cpu_pixel_norm, cuda_pixel_norm;
KernelLike<decltype(FusedKernels::pixel_norm_gradient)> cpu_pixel_norm_gradient,
    cuda_pixel_norm_gradient;
KernelLike<decltype(FusedKernels::adain)> cpu_adain, cuda_adain;
KernelLike<decltype(FusedKernels::adain_gradient)> cpu_adain_gradient, cuda_adain_gradient;
KernelLike<decltype(FusedKernels::filtered_lrelu)> cpu_filtered_lrelu, cuda_filtered_lrelu;
KernelLike<decltype(FusedKernels::filtered_slopes)> cpu_filtered_slopes, cuda_filtered_slopes;
KernelLike<decltype(FusedKernels::upfirdn2d_added)> cuda_upfirdn2d_added;
// None of a CPU: there the host knows p and the margins, and products with matrices are faster.
KernelLike<decltype(FusedKernels::affine_warp)> cuda_affine_warp;
KernelLike<decltype(FusedKernels::affine_warp_adjoint)> cuda_affine_warp_adjoint;
KernelLike<decltype(FusedKernels::drawn_matrices)> cuda_drawn_matrices;

// What two libraries that share these tables must agree on: the hash of the headers that they are
// compiled from (scripts/cmake/DeviceHeaders.cmake), and the sizes of both tables.
inline std::string device_interface(const char* hash_of_headers) {
  return std::string(hash_of_headers) + ", " + std::to_string(sizeof(DeviceKernels)) + " + " +
         std::to_string(sizeof(FusedKernels)) + " bytes";
}

// Throws UserError(kEnvironment) unless `found`, which the CUDA library says of itself, is this
// library's device_interface(): tables of another build would be read wrongly.
void check_device_interface(const std::string& found);

// Allows or forbids TensorFloat-32 on GPUs, which rounds the operands of float32 products and
// convolutions to 10 bits. LibTorch's own default allows it for convolutions; begin_on_gpu()
// forbids it, and precision.tf32 alone allows it.
void allow_tf32(bool allow);

// Makes the visible GPU of that index LibTorch's current device, and takes kernels, graphs and the
// errors of waits for tensors on GPUs from the CUDA library (lib/ops/gpu), which must have been
// loaded. Call it once, before anything is computed. From now on the calling thread gives its work
// to a stream of its own, because work on the default stream cannot be recorded as a graph. Throws
// UserError(kEnvironment) if the library lacks something or its kernels are not made for that GPU.
c10::Device begin_on_gpu(int64_t index);

}  // namespace gantrain
