// SPDX-License-Identifier: Apache-2.0
// Kernels for any device out of LibTorch's operators, all of them differentiable.
#include <cmath>

#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/device_kernels.h"
#include "ops/precision.h"

namespace gantrain {

using at::Tensor;

namespace {

// Puts up - 1 zeros after each pixel.
Tensor zeros_inserted(const Tensor& x, const Scale2d& up) {
  if (up.x == 1 && up.y == 1) return x;
  const int64_t n = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3);
  return at::constant_pad_nd(x.reshape({n, c, h, 1, w, 1}), {0, up.x - 1, 0, 0, 0, up.y - 1})
      .reshape({n, c, h * up.y, w * up.x});
}

Tensor composed_upfirdn2d(const Tensor& x, const Tensor& f, const UpFirDn& how) {
  const Padding2d& p = how.padding;
  const Tensor padded = at::constant_pad_nd(zeros_inserted(x, how.up), {p.x0, p.x1, p.y0, p.y1});
  // conv2d correlates: a true convolution needs the filter turned round.
  const Tensor taps = (how.flip_filter ? f : f.flip({0, 1})) * how.gain;
  const int64_t channels = x.size(1);
  const Tensor weight =
      taps.to(x.scalar_type()).expand({channels, 1, f.size(0), f.size(1)}).contiguous();
  return plain_conv2d(padded, weight, /*stride=*/{how.down.y, how.down.x}, /*groups=*/channels);
}

Tensor along(const Tensor& b, int64_t dim, int64_t axes) {
  std::vector<int64_t> shape(axes, 1);
  shape[dim] = b.size(0);
  return b.reshape(shape);
}

Tensor activated(const Tensor& u, const BiasActNumbers& how) {
  switch (how.act) {
    case Activation::kLinear:
      return u;
    case Activation::kRelu:
      return u.relu();
    case Activation::kLrelu:
      return at::leaky_relu(u, how.alpha);
    case Activation::kTanh:
      return u.tanh();
    case Activation::kSigmoid:
      return u.sigmoid();
    case Activation::kElu:
      return at::elu(u);
    case Activation::kSelu:
      return at::selu(u);
    case Activation::kSoftplus:
      return at::softplus(u, /*beta=*/1, kSoftplusThreshold);
    case Activation::kSwish:
      return u * u.sigmoid();
  }
  TORCH_CHECK(false, "no such activation");
}

// f' as a function of t = f(u).
Tensor slope_at_output(const Tensor& t, const BiasActNumbers& how) {
  switch (how.act) {
    case Activation::kLinear:
      return at::ones_like(t);
    case Activation::kRelu:
      return (t > 0).to(t.scalar_type());
    case Activation::kLrelu:
      return at::where(
          t > 0, at::scalar_tensor(1, t.options()), at::scalar_tensor(how.alpha, t.options()));
    case Activation::kTanh:
      return 1 - t.square();
    case Activation::kSigmoid:
      return t * (1 - t);
    case Activation::kElu:
      return t.clamp_max(0) + 1;
    case Activation::kSelu:
      return at::where(
          t > 0, at::scalar_tensor(kSeluScale, t.options()), t + kSeluScale * kSeluAlpha);
    case Activation::kSoftplus:
      return -(-t).expm1();
    case Activation::kSwish:
      break;
  }
  TORCH_CHECK(false, "the slope is not a function of the output");
}

// df'/dt.
Tensor bend_at_output(const Tensor& t, const BiasActNumbers& how) {
  switch (how.act) {
    case Activation::kTanh:
      return -2 * t;
    case Activation::kSigmoid:
      return 1 - 2 * t;
    case Activation::kElu:
    case Activation::kSelu:
      return (t < 0).to(t.scalar_type());
    case Activation::kSoftplus:
      return (-t).exp();
    default:
      break;
  }
  TORCH_CHECK(false, "the activation does not bend");
}

// What the derivatives are computed from, in a type to compute in.
struct Point {
  Tensor u, t;  // the activation's input, known for kInput only, and its output
  Tensor y;     // after the gain and, for kOutput, the clamp
};

Point point_of(const Tensor& from, const Tensor& b, const BiasActNumbers& how) {
  const at::ScalarType type = statistics_type(from.scalar_type());
  if (saved_by(how) == Saved::kOutput) {
    const Tensor y = from.to(type);
    return {Tensor(), y / how.gain, y};
  }
  const Tensor x = from.to(type);
  const Tensor u = b.defined() ? x + along(b.to(type), how.dim, x.dim()) : x;
  const Tensor t = activated(u, how);
  return {u, t, t * how.gain};
}

// 1 inside the clamp. Equality is outside: a clamped y cannot be told from one just there.
Tensor inside(const Tensor& dx, const Tensor& y, const BiasActNumbers& how) {
  if (std::isinf(how.clamp)) return dx;
  return at::where(y.abs() < how.clamp, dx, at::scalar_tensor(0, dx.options()));
}

Tensor composed_bias_act(const Tensor& x, const Tensor& b, const BiasActNumbers& how) {
  const at::ScalarType type = statistics_type(x.scalar_type());
  Tensor y = x.to(type);
  if (b.defined()) y = y + along(b.to(type), how.dim, x.dim());
  y = activated(y, how);
  if (how.gain != 1) y = y * how.gain;
  if (!std::isinf(how.clamp)) y = y.clamp(-how.clamp, how.clamp);
  y = y.to(x.scalar_type());
  return y.is_same(x) ? x.clone() : y;
}

Tensor composed_dx(const Tensor& dy,
                   const Tensor& from,
                   const Tensor& b,
                   const BiasActNumbers& how) {
  if (saved_by(how) == Saved::kNothing) return dy * how.gain;
  const Point at_point = point_of(from, b, how);
  Tensor slope;
  if (saved_by(how) == Saved::kInput) {
    const Tensor s = at_point.u.sigmoid();
    slope = s * (1 + at_point.u * (1 - s));
  } else {
    slope = slope_at_output(at_point.t, how);
  }
  return inside(dy * slope * how.gain, at_point.y, how).to(dy.scalar_type());
}

BiasActGradients composed_gradient(const Tensor& dy,
                                   const Tensor& from,
                                   const Tensor& b,
                                   const BiasActNumbers& how,
                                   bool sum_to_bias) {
  const Tensor dx = composed_dx(dy, from, b, how);
  return {dx, sum_to_bias ? summed_to_bias(dx, how.dim) : Tensor()};
}

Tensor composed_double_backward(const Tensor& v,
                                const Tensor& dy,
                                const Tensor& from,
                                const Tensor& b,
                                const BiasActNumbers& how) {
  const Point at_point = point_of(from, b, how);
  Tensor bend;
  if (saved_by(how) == Saved::kInput) {
    const Tensor s = at_point.u.sigmoid();
    bend = s * (1 - s) * (2 + at_point.u * (1 - 2 * s)) * how.gain;
  } else {
    bend = bend_at_output(at_point.t, how);
  }
  return inside(v * dy * bend, at_point.y, how).to(v.scalar_type());
}

}  // namespace

const DeviceKernels kComposedKernels{composed_upfirdn2d,
                                     composed_bias_act,
                                     composed_gradient,
                                     composed_double_backward,
                                     composed_draw};

}  // namespace gantrain
