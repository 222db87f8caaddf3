// SPDX-License-Identifier: Apache-2.0
#include "ops/convolution/convolution.h"

#include "core/device.h"
#include "core/torch.h"
#include "ops/device_kernels.h"
#include "ops/kernels.h"
#include "ops/operator.h"

namespace gantrain {

namespace {

// A convolution y(x, w) is linear in both of its arguments, so its derivatives are three functions
// that are each other's: y(x, w); dx(dy, w), which is also the transposed convolution; dw(x, dy).
enum class Direction { kForward, kInputGradient, kWeightGradient };

struct Convolution {
  Direction direction;
  ConvGeometry how;
  std::vector<int64_t> sizes;  // of the result; of no use for kForward
  int64_t groups = 1;
};

// Tensor cores read half-precision pictures channels-last; cuDNN would reorder others at every
// call. The result is channels-last again, so that only the first layer's input is copied.
Tensor for_tensor_cores(const Tensor& t, int64_t groups) {
  const bool half = t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16;
  if (!half || !is_gpu(t.device()) || groups != 1 || kernels_in_use() == KernelSet::kRef) return t;
  return t.contiguous(at::MemoryFormat::ChannelsLast);
}

// One of the two gradients of LibTorch's own convolution. It wants to see the tensor that the
// gradient belongs to, but reads no more of it than sizes and layout.
Tensor gradient_by_libtorch(const Tensor& dy,
                            const Tensor& other,
                            const Convolution& c,
                            bool by_input) {
  const Tensor like = at::empty(c.sizes, dy.options().memory_format(dy.suggest_memory_format()));
  const auto found = at::convolution_backward(dy,
                                              by_input ? like : other,
                                              by_input ? other : like,
                                              /*bias_sizes=*/at::OptionalIntArrayRef(),
                                              {c.how.stride, c.how.stride},
                                              {c.how.padding, c.how.padding},
                                              /*dilation=*/{1, 1},
                                              /*transposed=*/false,
                                              /*output_padding=*/{0, 0},
                                              c.groups,
                                              {by_input, !by_input, false});
  return by_input ? std::get<0>(found) : std::get<1>(found);
}

// The bias is added before the result is rounded. It may be undefined.
Tensor computed_by_libtorch(const Tensor& given_a,
                            const Tensor& given_b,
                            const Tensor& bias,
                            const Convolution& c) {
  const Tensor a = for_tensor_cores(given_a, c.groups), b = for_tensor_cores(given_b, c.groups);
  switch (c.direction) {
    case Direction::kForward:
      return at::conv2d(a, b, bias, c.how.stride, c.how.padding, /*dilation=*/1, c.groups);
    case Direction::kInputGradient:
      if (bias.defined())  // of a transposed convolution, whose size is that of nothing left over
        return at::conv_transpose2d(a, b, bias, c.how.stride, c.how.padding, 0, c.groups);
      return gradient_by_libtorch(a, b, c, /*by_input=*/true);
    case Direction::kWeightGradient:
      return gradient_by_libtorch(b, a, c, /*by_input=*/false);
  }
  TORCH_CHECK(false, "no such direction");
}

bool may_filter(const Tensor& x, const Tensor& weight, int64_t groups) {
  return reads_are_free(x.device()) && groups == 1 && x.scalar_type() == at::kFloat &&
         weight.scalar_type() == at::kFloat;
}

// The sizes of x and of the weight decide, so all derivatives of a convolution are computed alike.
bool filters(const Tensor& a, const Tensor& b, const Convolution& c) {
  if (!may_filter(a, b, c.groups)) return false;
  const bool gives_x = c.direction == Direction::kInputGradient;
  const bool gives_weight = c.direction == Direction::kWeightGradient;
  return winograd_pays(gives_x ? at::IntArrayRef(c.sizes) : a.sizes(),
                       gives_weight ? at::IntArrayRef(c.sizes) : b.sizes(),
                       c.how);
}

Tensor with_bias(const Tensor& y, const Tensor& bias) {
  return bias.defined() ? y + bias.reshape({1, -1, 1, 1}) : y;
}

Tensor computed(const Tensor& a, const Tensor& b, const Tensor& bias, const Convolution& c) {
  if (!filters(a, b, c)) return computed_by_libtorch(a, b, bias, c);
  // Profilers see it as an operator; lib/bench/record.cpp reads these arguments.
  RECORD_FUNCTION(
      "gantrain::convolution",
      std::vector<c10::IValue>(
          {a, b, static_cast<int64_t>(c.direction), c.how.stride, c.how.padding, c.sizes}));
  switch (c.direction) {
    case Direction::kForward:
      return with_bias(winograd_forward(a, b, c.how), bias);
    case Direction::kInputGradient:
      return with_bias(winograd_input_gradient(a, b, c.sizes, c.how), bias);
    case Direction::kWeightGradient:
      return winograd_weight_gradient(a, b, c.sizes, c.how);
  }
  TORCH_CHECK(false, "no such direction");
}

struct ConvolutionFunction : torch::autograd::Function<ConvolutionFunction> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& a,
                        const Tensor& b,
                        const Convolution& c,
                        const std::optional<Tensor>& bias) {
    save(context, {a, b});
    hold(context, "convolution", c);
    hold(context, "has bias", bias.has_value());
    return computed(a, b, bias.value_or(Tensor()), c);
  }

  static variable_list backward(AutogradContext* context, variable_list gradient) {
    variable_list result(4);
    const Tensor& g = gradient[0];
    if (!g.defined()) return result;
    const WithoutAutocast exact;
    const variable_list saved = context->get_saved_variables();
    const Tensor &a = saved[0], &b = saved[1];
    const auto& c = held<Convolution>(context, "convolution");
    const auto y = [&](const Tensor& x, const Tensor& w) {
      return apply(x, w, Convolution{Direction::kForward, c.how, {}, c.groups}, std::nullopt);
    };
    const auto dx = [&](const Tensor& dy, const Tensor& w, at::IntArrayRef x) {
      return apply(
          dy, w, Convolution{Direction::kInputGradient, c.how, x.vec(), c.groups}, std::nullopt);
    };
    const auto dw = [&](const Tensor& x, const Tensor& dy, at::IntArrayRef w) {
      return apply(
          x, dy, Convolution{Direction::kWeightGradient, c.how, w.vec(), c.groups}, std::nullopt);
    };
    const bool first = context->needs_input_grad(0), second = context->needs_input_grad(1);
    // Only tensors that are there are counted.
    const bool third = held<bool>(context, "has bias") && context->needs_input_grad(2);
    if (third) result[3] = g.sum({0, 2, 3});
    switch (c.direction) {
      case Direction::kForward:  // a: x, b: w, g: dy
        if (first) result[0] = dx(g, b, a.sizes());
        if (second) result[1] = dw(a, g, b.sizes());
        break;
      case Direction::kInputGradient:  // a: dy, b: w, g: like x
        if (first) result[0] = y(g, b);
        if (second) result[1] = dw(g, a, b.sizes());
        break;
      case Direction::kWeightGradient:  // a: x, b: dy, g: like w
        if (first) result[0] = dx(b, g, a.sizes());
        if (second) result[1] = y(a, g);
        break;
    }
    return result;
  }
};

// LibTorch's second derivative of a convolution computes the weight's gradient as a forward
// convolution whose filter is the whole feature map, and in groups makes one convolution of each:
// 96 kernels instead of one for R3GAN (Huang et al. 2024). Its first derivatives are single
// kernels, and ConvolutionFunction needs no others.
bool derives_by_itself(const ConvPlace& place) {
  return kernels_in_use() == KernelSet::kAuto && place.padding[0] == place.padding[1];
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvPlace& place) {
  const Tensor a = for_tensor_cores(x, place.groups), b = for_tensor_cores(weight, place.groups);
  if (derives_by_itself(place)) {
    const ConvGeometry how{place.stride, place.padding[0]};
    const Convolution forward{Direction::kForward, how, {}, place.groups};
    return ConvolutionFunction::apply(a, b, forward, present(bias));
  }
  return at::conv2d(a,
                    b,
                    bias,
                    place.stride,
                    place.padding,
                    /*dilation=*/1,
                    place.groups);
}

Tensor conv_transpose2d(const Tensor& x,
                        const Tensor& weight,
                        const Tensor& bias,
                        const ConvPlace& place) {
  const Tensor a = for_tensor_cores(x, place.groups), b = for_tensor_cores(weight, place.groups);
  if (derives_by_itself(place)) {
    const ConvGeometry how{place.stride, place.padding[0]};
    const auto side = [&](int64_t axis) {
      return (x.size(axis) - 1) * how.stride - 2 * how.padding + weight.size(axis);
    };
    const std::vector<int64_t> sizes{x.size(0), weight.size(1) * place.groups, side(2), side(3)};
    const Convolution backward{Direction::kInputGradient, how, sizes, place.groups};
    return ConvolutionFunction::apply(a, b, backward, present(bias));
  }
  return at::conv_transpose2d(a,
                              b,
                              bias,
                              place.stride,
                              place.padding,
                              /*output_padding=*/0,
                              place.groups);
}

namespace {

// weight * factor, rounded once to a half type, channels last. The gradient comes back as the
// weight lies.
struct HalfWeight : torch::autograd::Function<HalfWeight> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& weight,
                        double factor,
                        at::ScalarType type) {
    context->saved_data["factor"] = factor;
    hold(context, "type", weight.scalar_type());
    Tensor half = at::empty(
        weight.sizes(), weight.options().dtype(type).memory_format(at::MemoryFormat::ChannelsLast));
    at::mul_out(half, weight, at::scalar_tensor(factor, at::kDouble));
    return half;
  }

  static variable_list backward(AutogradContext* context, variable_list g) {
    if (!g[0].defined()) return {Tensor(), Tensor(), Tensor()};
    const WithoutAutocast exact;
    const Tensor wide = g[0].to(held<at::ScalarType>(context, "type"),
                                /*non_blocking=*/false,
                                /*copy=*/false,
                                at::MemoryFormat::Contiguous);
    return {wide * context->saved_data["factor"].toDouble(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor convolution_weight(const Tensor& weight, double factor, const Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  const bool half = type == at::kHalf || type == at::kBFloat16;
  if (half && weight.scalar_type() == at::kFloat && launches_cost(x))
    return HalfWeight::apply(weight, factor, type);
  return (weight * factor).to(type);
}

Tensor in_fast_layout(const Tensor& x) {
  const bool fast = kernels_in_use() == KernelSet::kAuto && x.device().is_cpu();
  return fast ? x.contiguous(at::MemoryFormat::ChannelsLast) : x;
}

namespace {

UpFirDn up_by(int64_t up, const Padding2d& padding, bool flip_filter) {
  return {{up, up}, {}, padding, flip_filter, static_cast<double>(up * up)};
}

UpFirDn down_by(int64_t down, const Padding2d& padding, bool flip_filter) {
  return {{}, {down, down}, padding, flip_filter};
}

// The pads that keep the FIRs centred, for both of them at once, added to the caller's.
Padding2d centred(Padding2d padding, const Tensor& f, int64_t up, int64_t down) {
  if (up > 1) padding = centred_up(padding, f, {up, up});
  if (down > 1) padding = centred_down(padding, f, {down, down});
  return padding;
}

// Convolves without padding.
Tensor correlated(const Tensor& x, const Tensor& w, int64_t stride, int64_t groups) {
  return autocast_conv2d(x, w, {}, {stride, {0, 0}, groups});
}

// The adjoint of a convolution with stride `up`: zero insertion and convolution in one.
Tensor transposed(
    const Tensor& x, const Tensor& w, int64_t up, std::array<int64_t, 2> trim, int64_t groups) {
  const int64_t out = w.size(0) / groups, in = w.size(1), kh = w.size(2), kw = w.size(3);
  const Tensor swapped =
      w.reshape({groups, out, in, kh, kw}).transpose(1, 2).reshape({groups * in, out, kh, kw});
  return autocast_conv_transpose2d(x, swapped, {}, {up, trim, groups});
}

// A convolution with the kernel's pixels `up` apart; the FIR after it does the rest.
Tensor up_sampled(const Tensor& x,
                  const Tensor& w,  // as for a true convolution
                  const Tensor& f,
                  const ConvResample& how,
                  Padding2d p) {
  const int64_t kh = w.size(2), kw = w.size(3), up = how.up;
  p.x0 -= kw - 1;
  p.x1 -= kw - up;
  p.y0 -= kh - 1;
  p.y1 -= kh - up;
  // Crops that both sides share cost least inside the convolution.
  const int64_t tx = std::max<int64_t>(std::min(-p.x0, -p.x1), 0),
                ty = std::max<int64_t>(std::min(-p.y0, -p.y1), 0);
  const Tensor y = transposed(x, w, up, {ty, tx}, how.groups);
  UpFirDn fir{{}, {}, {p.x0 + tx, p.x1 + tx, p.y0 + ty, p.y1 + ty}, how.flip_filter};
  fir.gain = static_cast<double>(up * up);
  return upfirdn2d(y, f, fir);
}

// The definition of the whole operation, step by step.
Tensor plain(
    const Tensor& x, const Tensor& w, const Tensor& f, const ConvResample& c, const Padding2d& p) {
  const bool ups = c.up > 1;
  const Tensor padded = upfirdn2d(x, ups ? f : Tensor(), up_by(c.up, p, c.flip_filter));
  const Tensor y = correlated(padded, w, /*stride=*/1, c.groups);
  return c.down > 1 ? upfirdn2d(y, f, down_by(c.down, {}, c.flip_filter)) : y;
}

}  // namespace

Tensor conv2d_resample(const Tensor& x_in,
                       const Tensor& w_in,
                       const Tensor& f,
                       const ConvResample& how) {
  const at::ScalarType type = convolution_type(x_in);
  const WithoutAutocast exact;
  const Tensor x = x_in.to(type);
  const Padding2d p = centred(how.padding, f, how.up, how.down);
  const bool pointwise = w_in.size(2) == 1 && w_in.size(3) == 1;
  const bool transposing = kernels_in_use() != KernelSet::kRef && how.up > 1 && !pointwise;
  // The kernel as a transposed convolution needs it, or else as a correlation needs it.
  const bool flips = how.flip_weight == transposing && !pointwise;
  const Tensor w = (flips ? w_in.flip({2, 3}) : w_in).to(type);
  if (transposing) {
    const Tensor y = up_sampled(x, w, f, how, p);
    return how.down > 1 ? upfirdn2d(y, f, down_by(how.down, {}, how.flip_filter)) : y;
  }
  if (kernels_in_use() == KernelSet::kRef) return plain(x, w, f, how, p);

  if (pointwise && how.down > 1 && how.up == 1) {
    const Tensor small = upfirdn2d(x, f, down_by(how.down, p, how.flip_filter));
    return correlated(small, w, /*stride=*/1, how.groups);
  }
  if (pointwise && how.up > 1 && how.down == 1) {
    const Tensor y = correlated(x, w, /*stride=*/1, how.groups);
    return upfirdn2d(y, f, up_by(how.up, p, how.flip_filter));
  }
  if (how.down > 1 && how.up == 1) {
    const Tensor blurred = upfirdn2d(x, f, {{}, {}, p, how.flip_filter});
    return correlated(blurred, w, how.down, how.groups);
  }
  if (p.x0 == p.x1 && p.y0 == p.y1 && p.x0 >= 0 && p.y0 >= 0)
    return autocast_conv2d(x, w, {}, {1, {p.y0, p.x0}, how.groups});
  return plain(x, w, f, how, p);
}

}  // namespace gantrain
