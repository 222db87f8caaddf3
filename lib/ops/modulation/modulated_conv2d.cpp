// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/convolution/convolution.h"
#include "ops/device_kernels.h"
#include "ops/modulation/map_layout.h"
#include "ops/modulation/modulation.h"
#include "ops/operator.h"
#include "ops/vector/cpu_kernels.h"

namespace gantrain {

Tensor cpu_plane_products(const Tensor& a_in, const Tensor& b_in) {
  const Tensor a = a_in.contiguous(), b = b_in.contiguous();
  Tensor sums = at::empty({a.size(0), a.size(1)}, a.options());
  auto* to = sums.mutable_data_ptr<float>();
  const int64_t length = a.size(2) * a.size(3);
  shared_out(sums.numel(), length, [&](int64_t begin, int64_t end) {
    cpu_kernels().modulation.row_products(floats(a), floats(b), to, length, begin, end);
  });
  return sums;
}

Tensor cpu_scaled_planes(const Tensor& w_in, const Tensor& by_in, double factor) {
  const Tensor w = w_in.contiguous(), by = by_in.contiguous();
  Tensor out = at::empty(w.sizes(), w.options());
  auto* to = out.mutable_data_ptr<float>();
  const int64_t length = w.size(2) * w.size(3);
  shared_out(by.numel(), length, [&](int64_t begin, int64_t end) {
    cpu_kernels().modulation.scaled_rows(
        floats(w), floats(by), static_cast<float>(factor), to, length, begin, end);
  });
  return out;
}

namespace {

struct ScaledPlanes;

// Sums of products over planes and planes times factors are each other's derivatives, so that two
// kernels serve derivatives of any order.
struct PlaneProducts : torch::autograd::Function<PlaneProducts> {
  static Tensor forward(AutogradContext* context, const Tensor& a, const Tensor& b) {
    save(context, {a, b});
    return fused_kernels_of(a).plane_products(a, b);
  }
  static variable_list backward(AutogradContext* context, variable_list grad);
};

struct ScaledPlanes : torch::autograd::Function<ScaledPlanes> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& w,
                        const Tensor& by,
                        double factor) {
    save(context, {w, by});
    context->saved_data["factor"] = factor;
    return fused_kernels_of(w).scaled_planes(w, by, factor);
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    variable_list result(3);
    if (!grad[0].defined()) return result;
    const WithoutAutocast exact;
    const variable_list saved = context->get_saved_variables();
    const double factor = context->saved_data["factor"].toDouble();
    if (context->needs_input_grad(0)) result[0] = apply(grad[0], saved[1], factor);
    if (context->needs_input_grad(1)) result[1] = PlaneProducts::apply(grad[0], saved[0]) * factor;
    return result;
  }
};

variable_list PlaneProducts::backward(AutogradContext* context, variable_list grad) {
  variable_list result(2);
  if (!grad[0].defined()) return result;
  const WithoutAutocast exact;
  const variable_list saved = context->get_saved_variables();
  if (context->needs_input_grad(0)) result[0] = ScaledPlanes::apply(saved[1], grad[0], 1.0);
  if (context->needs_input_grad(1)) result[1] = ScaledPlanes::apply(saved[0], grad[0], 1.0);
  return result;
}

struct SquareSums : torch::autograd::Function<SquareSums> {
  static Tensor forward(AutogradContext* context, const Tensor& w) {
    save(context, {w});
    return fused_kernels_of(w).plane_products(w, w);
  }
  static variable_list backward(AutogradContext* context, variable_list grad) {
    if (!grad[0].defined()) return {Tensor()};
    const WithoutAutocast exact;
    return {ScaledPlanes::apply(context->get_saved_variables()[0], grad[0], 2.0)};
  }
};

}  // namespace

Tensor square_sums(const Tensor& w) {
  if (!has_fused_kernel(&FusedKernels::plane_products, w)) return w.square().sum({2, 3});
  return SquareSums::apply(w);
}

namespace {

ConvResample resampling(const ModulatedConv& how, int64_t groups) {
  const int64_t p = how.padding;
  return {how.up, how.down, {p, p, p, p}, groups, how.flip_weight};
}

// The factors [N, O] of eq. 3, which scale the weights of each sample's output channel to unit
// norm. Styles are the same for all of the kernel's pixels, so the sum over pixels comes first.
Tensor demodulation(const Tensor& weight, const Tensor& styles) {
  constexpr double kEps = 1e-8;
  const Tensor energy = square_sums(weight);  // [O, I]
  return (at::matmul(styles.square(), energy.t()) + kEps).rsqrt();
}

// One convolution with N groups, the samples side by side as channels.
Tensor fused(const Tensor& x,
             const Tensor& weight,
             const Tensor& styles,
             const Tensor& d,
             const Tensor& f,
             const ModulatedConv& how) {
  const int64_t n = x.size(0), out = weight.size(0), in = weight.size(1);
  Tensor w = weight.unsqueeze(0) * styles.reshape({n, 1, in, 1, 1});
  if (d.defined()) w = w * d.reshape({n, out, 1, 1, 1});
  const Tensor y =
      conv2d_resample(x.reshape({1, n * in, x.size(2), x.size(3)}),
                      w.to(x.scalar_type()).reshape({n * out, in, w.size(3), w.size(4)}),
                      f,
                      resampling(how, n));
  return y.reshape({n, out, y.size(2), y.size(3)});
}

// The weight in the type of maps that are convolved: where tensor cores do so, in the order in
// which they read it, which for the transposed convolution of an upsampling layer is that of the
// weight transposed.
Tensor in_type_of(const Tensor& scaled, const Tensor& weight, const ModulatedConv& how) {
  const at::ScalarType type = scaled.scalar_type();
  const auto last = [&](const Tensor& w) {
    return w.to(type, /*non_blocking=*/false, /*copy=*/false, at::MemoryFormat::ChannelsLast);
  };
  if (statistics_type(type) == type || !launches_cost(scaled)) return weight.to(type);
  return how.up > 1 ? last(weight.transpose(0, 1)).transpose(0, 1) : last(weight);
}

// The same convolution, but x is scaled and not the weight; the result is yet to be scaled by the
// demodulation.
Tensor convolved(const Tensor& scaled,
                 const Tensor& weight,
                 const Tensor& f,
                 const ModulatedConv& how) {
  return conv2d_resample(scaled, in_type_of(scaled, weight, how), f, resampling(how, 1));
}

// The largest magnitude along these axes, which stay with one number each.
Tensor largest(const Tensor& t, at::IntArrayRef axes) {
  return at::linalg_vector_norm(
      t.detach(), std::numeric_limits<double>::infinity(), axes, /*keepdim=*/true);
}

// In float16 this factor of each output channel, which cancels in the demodulation, keeps the sums
// of products inside the type's range. So nothing is differentiated by it.
Tensor in_range(const Tensor& weight, at::ScalarType type) {
  if (type != at::kHalf) return weight;
  const auto fan_in = static_cast<double>(weight.size(1) * weight.size(2) * weight.size(3));
  return weight / (std::sqrt(fan_in) * largest(weight, {1, 2, 3}));
}

// A convolution with a kernel of one pixel for each sample is a product of matrices, which takes x
// as it is instead of a scaled copy: where the device's kernels spare the other layers theirs. On a
// CPU the two cost the same, and a convolution's type can be chosen by measurement.
bool is_product(const Tensor& x, const Tensor& weight, const ModulatedConv& how) {
  return has_fused_kernel(&FusedKernels::act_scaled, x) && weight.size(2) == 1 &&
         weight.size(3) == 1 && how.up == 1 && how.down == 1 && how.padding == 0 && !how.demodulate;
}

Tensor product(const Tensor& x, const Tensor& weight, const Tensor& styles) {
  note_computed(x.scalar_type());
  return sample_products(
      x, (weight.squeeze(-1).squeeze(-1) * styles.unsqueeze(1)).to(x.scalar_type()));
}

}  // namespace

Tensor styles_for(at::ScalarType type, const Tensor& styles) {
  return type == at::kHalf ? styles / largest(styles, {1}) : styles;
}

StyledMaps modulated_layer(const StyledMaps& in,
                           const Tensor& weight_in,
                           const Tensor& f,
                           const ModulatedConv& how,
                           const ModulatedAct& after_in,
                           const BiasAct& act,
                           const NextConv& next) {
  const bool is_scaled = in.scaled.defined();
  const at::ScalarType type = convolution_type(is_scaled ? in.scaled : in.x);
  const WithoutAutocast exact;
  Tensor weight = in_statistics_type(weight_in), styles = in_statistics_type(in.styles);
  if (how.demodulate) {
    weight = in_range(weight, type);
    if (!is_scaled) styles = styles_for(type, styles);
  }
  ModulatedAct after = after_in;
  const Tensor d = how.demodulate ? demodulation(weight, styles) : Tensor();
  const Tensor x = (is_scaled ? in.scaled : in.x).to(type);
  if (!is_scaled && is_product(x, weight, how))
    return modulated_act_for(product(x, weight, styles), after, act, next);
  if (!is_scaled && how.fused)
    return modulated_act_for(fused(x, weight, styles, d, f, how), after, act, next);
  after.d = d;
  const Tensor scaled = is_scaled ? x : channels_scaled(x, styles);
  return modulated_act_for(convolved(scaled, weight, f, how), after, act, next);
}

Tensor modulated_layer(const Tensor& x,
                       const Tensor& weight,
                       const Tensor& styles,
                       const Tensor& f,
                       const ModulatedConv& how,
                       const ModulatedAct& after,
                       const BiasAct& act) {
  return modulated_layer({x, {}, styles}, weight, f, how, after, act, NextConv{}).x;
}

namespace {

// Linear in both arguments, so the derivatives are three functions that are each other's: y(x, w);
// dx(dy, w), which lies in memory as x does; dw(x, dy).
enum class SampleProduct { kY, kDx, kDw };

struct SampleProducts {
  SampleProduct which;
  bool channels_last;  // x
};

// Maps [N, C, H, W] as matrices [N, C, H * W]: views of dense maps in either order.
Tensor as_matrices(const Tensor& maps, bool channels_last) {
  const int64_t n = maps.size(0), c = maps.size(1), pixels = maps.size(2) * maps.size(3);
  if (channels_last) return maps.permute({0, 2, 3, 1}).reshape({n, pixels, c}).transpose(1, 2);
  return maps.reshape({n, c, pixels});
}

// The result of each is the one that at::bmm writes in rows, so that nothing is copied.
Tensor computed(const Tensor& a, const Tensor& b, const SampleProducts& how) {
  const bool last = how.channels_last;
  switch (how.which) {
    case SampleProduct::kY:
      return at::bmm(b, as_matrices(a, last)).reshape({a.size(0), b.size(1), a.size(2), a.size(3)});
    case SampleProduct::kDx: {
      const Tensor dy = as_matrices(a, false);
      const int64_t n = a.size(0), c = b.size(2), h = a.size(2), w = a.size(3);
      if (last) return at::bmm(dy.transpose(1, 2), b).reshape({n, h, w, c}).permute({0, 3, 1, 2});
      return at::bmm(b.transpose(1, 2), dy).reshape({n, c, h, w});
    }
    case SampleProduct::kDw:
      return at::bmm(as_matrices(b, false), as_matrices(a, last).transpose(1, 2));
  }
  TORCH_CHECK(false, "no such product");
}

struct SampleProductsFunction : torch::autograd::Function<SampleProductsFunction> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& a,
                        const Tensor& b,
                        const SampleProducts& how) {
    save(context, {a, b});
    hold(context, "how", how);
    return computed(a, b, how);
  }

  static variable_list backward(AutogradContext* context, variable_list gradient) {
    variable_list result(3);
    const Tensor& g = gradient[0];
    if (!g.defined()) return result;
    const WithoutAutocast exact;
    const variable_list saved = context->get_saved_variables();
    const Tensor &a = saved[0], &b = saved[1];
    const bool last = held<SampleProducts>(context, "how").channels_last;
    const auto y = [&](const Tensor& x, const Tensor& w) {
      return apply(x, w, SampleProducts{SampleProduct::kY, last});
    };
    const auto dx = [&](const Tensor& dy, const Tensor& w) {
      return apply(dy, w, SampleProducts{SampleProduct::kDx, last});
    };
    const auto dw = [&](const Tensor& x, const Tensor& dy) {
      return apply(x, dy, SampleProducts{SampleProduct::kDw, last});
    };
    const bool first = context->needs_input_grad(0), second = context->needs_input_grad(1);
    switch (held<SampleProducts>(context, "how").which) {
      case SampleProduct::kY:  // a: x, b: w, g: dy
        if (first) result[0] = dx(g, b);
        if (second) result[1] = dw(a, g);
        break;
      case SampleProduct::kDx:  // a: dy, b: w, g: like x
        if (first) result[0] = y(g, b);
        if (second) result[1] = dw(g, a);
        break;
      case SampleProduct::kDw:  // a: x, b: dy, g: like w
        if (first) result[0] = dx(b, g);
        if (second) result[1] = y(a, g);
        break;
    }
    return result;
  }
};

}  // namespace

Tensor sample_products(const Tensor& x, const Tensor& w) {
  const MapLayout layout(x);
  return SampleProductsFunction::apply(
      layout(x), w, SampleProducts{SampleProduct::kY, layout.channels_last()});
}

}  // namespace gantrain
