// SPDX-License-Identifier: Apache-2.0
// What the glue of the CUDA library launches (NAME_cuda.cpp, gpu/table_cuda.cpp), without its
// arithmetic: who changes the one changes the other.
#include "core/torch.h"
#include "ops/counting/counted.h"
#include "ops/modulation/map_layout.h"

namespace gantrain {

using at::Tensor;

namespace {

Tensor counted_upfirdn2d(const Tensor& x_in, const Tensor& f, const UpFirDn& how) {
  const auto format = x_in.suggest_memory_format();
  const Tensor x = x_in.contiguous(format);
  const auto side = [](int64_t in, int64_t up, int64_t down, int64_t pads, int64_t taps) {
    return (in * up + pads - taps + down) / down;
  };
  const Padding2d& p = how.padding;
  const Tensor out = at::empty({x.size(0),
                                x.size(1),
                                side(x.size(2), how.up.y, how.down.y, p.y0 + p.y1, f.size(0)),
                                side(x.size(3), how.up.x, how.down.x, p.x0 + p.x1, f.size(1))},
                               x.options().memory_format(format));
  count_call("upfirdn2d", 1, {x, f}, {out});
  return out;
}

// The sum is a kernel of its own where channels are not last.
Tensor counted_upfirdn2d_added(const Tensor& x,
                               const Tensor& f,
                               const UpFirDn& /*how*/,
                               const Tensor& added) {
  const auto format = x.suggest_memory_format();
  const Tensor in = x.contiguous(format), more = added.contiguous(format);
  const Tensor out = at::empty_like(more);
  const bool one = format == at::MemoryFormat::ChannelsLast;
  count_call("upfirdn2d, added", one ? 1 : 2, {in, f, more}, {out});
  if (!one) count_call("upfirdn2d, added", 0, {out}, {out});
  return out;
}

// The tensors of a call lie in memory as the first one does, which is dense.
Tensor dense(const Tensor& t) {
  return t.defined() && !t.is_non_overlapping_and_dense() ? t.contiguous() : t;
}
Tensor ordered(const Tensor& t, const Tensor& like) {
  if (!t.defined() || (t.is_non_overlapping_and_dense() && t.strides() == like.strides())) return t;
  return at::empty_like(like).copy_(t);
}

Tensor counted_bias_act(const Tensor& given, const Tensor& b, const BiasActNumbers& /*how*/) {
  const Tensor x = dense(given);
  const Tensor y = at::empty_like(x);
  count_call("bias_act", 1, {x, b}, {y});
  return y;
}

BiasActGradients counted_bias_act_gradient(const Tensor& dy,
                                           const Tensor& y,
                                           const BiasActNumbers& how,
                                           bool sum_to_bias) {
  const bool equal = !y.defined() && how.gain == 1;
  if (equal && !sum_to_bias) return {dy, {}};
  const Tensor first = dense(y.defined() ? y : dy);
  const Tensor in = ordered(dy, first), dx = equal ? dy : at::empty_like(first);
  const Tensor db = sum_to_bias ? at::empty({dy.size(how.dim)}, dy.options()) : Tensor();
  count_call("bias_act gradient",
             sum_to_bias ? 2 : 1,
             {in, ordered(y, first)},
             {equal ? Tensor() : dx, db});
  return {dx, db};
}

Tensor counted_draw(const DrawNumbers& how) {
  const bool whole = how.distribution == Distribution::kBits;
  const Tensor out = at::empty({how.samples.count, how.each},
                               how.key.options().dtype(whole ? at::kLong : at::kFloat));
  count_call("draw", 1, {how.key}, {out});
  return out;
}

Tensor counted_floats(const Tensor& t) { return t.defined() ? t.to(at::kFloat).contiguous() : t; }
ActTensors counted_floats(const ActTensors& t) {
  return {counted_floats(t.d),
          counted_floats(t.noise),
          counted_floats(t.strength),
          counted_floats(t.bias)};
}

Tensor counted_act(const Tensor& y_in, const ActTensors& t_in, const ActNumbers& /*how*/) {
  const MapLayout layout(y_in);
  const Tensor out = layout.empty(y_in), y = layout(y_in);
  const ActTensors t = counted_floats(t_in);
  count_call("modulated_act", 1, {y, t.d, t.noise, t.strength, t.bias}, {out});
  return out;
}

Tensor counted_act_added(const Tensor& y_in,
                         const ActTensors& t_in,
                         const ActNumbers& /*how*/,
                         const Tensor& added) {
  const MapLayout layout(y_in);
  const Tensor out = layout.empty(y_in), y = layout(y_in), more = layout(added);
  const ActTensors t = counted_floats(t_in);
  count_call("modulated_act, added", 1, {y, more, t.d, t.noise, t.strength, t.bias}, {out});
  return out;
}

Tensor counted_sums(const Tensor& maps, at::IntArrayRef sizes, bool wanted) {
  return wanted ? at::empty(sizes, maps.options().dtype(at::kFloat)) : Tensor();
}

// Sums over pixels are left in parts, which one kernel of their own adds up; that of a strength for
// all channels is then added up once more.
int64_t launches_of_sums(const ActWanted& wanted, bool by_channel, bool wants_then) {
  const bool any = wanted.d || wanted.strength || wanted.bias || wants_then;
  return (any ? 1 : 0) + (wanted.strength && !by_channel ? 1 : 0);
}

ActDerivatives counted_act_gradient(const ActPoint& at_in,
                                    const ActTensors& t_in,
                                    const ActNumbers& /*how*/,
                                    const ActWanted& wanted) {
  const MapLayout layout(at_in.out.defined() ? at_in.out : at_in.grad);
  const Tensor dy = layout.empty(at_in.grad);
  const ActPoint at = layout(at_in);
  const ActTensors t = counted_floats(t_in);
  const int64_t channels = dy.size(1);
  const bool by_channel = t.strength.defined() && t.strength.dim() > 0;
  const Tensor d = counted_sums(dy, {dy.size(0), channels}, wanted.d),
               bias = counted_sums(dy, {channels}, wanted.bias),
               strength = by_channel ? counted_sums(dy, {channels}, wanted.strength)
                                     : counted_sums(dy, {}, wanted.strength);
  count_call("modulated_act gradient",
             1 + launches_of_sums(wanted, by_channel, false),
             {at.grad, at.out, wanted.d ? at.y : Tensor(), t.d, t.noise, t.strength, t.bias},
             {dy, d, bias, strength});
  return {dy, d, strength, bias};
}

std::tuple<Tensor, Tensor, Tensor> counted_act_second(const ActPoint& at_in,
                                                      const ActTensors& t_in,
                                                      const ActNumbers& /*how*/,
                                                      const ActDerivatives& along_in,
                                                      const FusedKernels::SecondWanted& wanted) {
  const MapLayout layout(at_in.out.defined() ? at_in.out : at_in.grad);
  const Tensor by_grad = layout.empty(at_in.grad);
  const Tensor by_y = wanted.y && along_in.d.defined() ? layout.empty(by_grad) : Tensor();
  const bool by_d = wanted.d && along_in.y.defined();
  const ActPoint at = layout(at_in);
  const ActTensors t = counted_floats(t_in);
  const Tensor along_y = layout(along_in.y), along_d = counted_floats(along_in.d),
               along_strength = counted_floats(along_in.strength),
               along_bias = counted_floats(along_in.bias);
  const Tensor d = counted_sums(by_grad, {by_grad.size(0), by_grad.size(1)}, by_d);
  count_call("modulated_act second gradient",
             by_d ? 2 : 1,
             {at.grad, at.out, at.y, t.d, t.noise, along_y, along_d, along_strength, along_bias},
             {by_grad, by_y, d});
  return {by_grad, by_y, d};
}

std::tuple<Tensor, Tensor> counted_act_scaled(const Tensor& y_in,
                                              const ActTensors& t_in,
                                              const ActNumbers& /*how*/,
                                              const Tensor& then,
                                              bool both) {
  const MapLayout layout(y_in);
  const Tensor out = both ? layout.empty(y_in) : Tensor(), scaled = layout.empty(y_in);
  const Tensor y = layout(y_in);
  const ActTensors t = counted_floats(t_in);
  count_call("modulated_act, scaled",
             1,
             {y, t.d, t.noise, t.strength, t.bias, counted_floats(then)},
             {out, scaled});
  return {out, scaled};
}

ScaledActDerivatives counted_act_scaled_gradient(const ScaledActPoint& at,
                                                 const ActTensors& t_in,
                                                 const ActNumbers& /*how*/,
                                                 const Tensor& then,
                                                 const ActWanted& wanted,
                                                 bool wants_then) {
  const MapLayout layout(at.y);
  const Tensor y = layout(at.y), grad = layout(at.grad), grad_scaled = layout(at.grad_scaled);
  const Tensor dy = layout.empty(y);
  const ActTensors t = counted_floats(t_in);
  const int64_t samples = y.size(0), channels = y.size(1);
  const bool by_channel = t.strength.defined() && t.strength.dim() > 0;
  const Tensor d = counted_sums(dy, {samples, channels}, wanted.d),
               bias = counted_sums(dy, {channels}, wanted.bias),
               strength = by_channel ? counted_sums(dy, {channels}, wanted.strength)
                                     : counted_sums(dy, {}, wanted.strength),
               by_then = counted_sums(dy, {samples, channels}, wants_then);
  count_call("modulated_act, scaled, gradient",
             1 + launches_of_sums(wanted, by_channel, wants_then),
             {grad, grad_scaled, y, t.d, t.noise, t.strength, t.bias, counted_floats(then)},
             {dy, d, bias, strength, by_then});
  return {{dy, d, strength, bias}, by_then};
}

Tensor counted_plane_products(const Tensor& a_in, const Tensor& b_in) {
  const Tensor a = a_in.contiguous(), b = b_in.contiguous();
  const Tensor out = at::empty({a.size(0), a.size(1)}, a.options());
  count_call("plane products", 1, {a, b}, {out});
  return out;
}

Tensor counted_scaled_planes(const Tensor& w_in, const Tensor& by_in, double /*factor*/) {
  const Tensor w = w_in.contiguous(), by = by_in.contiguous();
  const Tensor out = at::empty(w.sizes(), w.options());
  count_call("scaled planes", 1, {w, by}, {out});
  return out;
}

// Both kernels read what they measure and copy.
Tensor counted_minibatch_std(const Tensor& x_in, int64_t /*g*/, int64_t channels, double /*eps*/) {
  const auto format = x_in.suggest_memory_format();
  const Tensor x = x_in.contiguous(format);
  const Tensor out = at::empty({x.size(0), x.size(1) + channels, x.size(2), x.size(3)},
                               x.options().memory_format(format));
  count_call("minibatch_std", 2, {x}, {out});
  return out;
}

Tensor counted_minibatch_std_gradient(
    const Tensor& dy, const Tensor& x_in, int64_t /*g*/, int64_t /*channels*/, double /*eps*/) {
  const auto format = x_in.suggest_memory_format();
  const Tensor x = x_in.contiguous(format);
  const Tensor dout = dy.to(x.scalar_type()).contiguous(format), out = at::empty_like(x);
  count_call("minibatch_std gradient", 2, {dout, x}, {out});
  return out;
}

// What is read once or twice of maps, and written once.
Tensor counted_norm(
    const char* name, int64_t kernels, const Tensor& dout, const Tensor& x_in, int reads) {
  const auto format = x_in.suggest_memory_format();
  const Tensor x = x_in.contiguous(format), out = at::empty_like(x);
  std::vector<Tensor> read;
  for (int i = 0; i < reads; ++i) {
    read.push_back(x);
    if (dout.defined()) read.push_back(dout.to(x.scalar_type()).contiguous(format));
  }
  count_call(name, kernels, read, {out});
  return out;
}

Tensor counted_pixel_norm(const Tensor& x, double /*eps*/) {
  return counted_norm("pixel_norm", 1, {}, x, 1);
}
Tensor counted_pixel_norm_gradient(const Tensor& dout, const Tensor& x, double /*eps*/) {
  return counted_norm("pixel_norm gradient", 1, dout, x, 1);
}

// Sums, their merge, and the result.
std::tuple<Tensor, Tensor, Tensor> counted_adain(const Tensor& x,
                                                 const Tensor& /*style*/,
                                                 double /*eps*/) {
  const Tensor out = counted_norm("adain", 3, {}, x, 2);
  const Tensor mean = at::empty({x.size(0), x.size(1)}, x.options().dtype(at::kFloat));
  return {out, mean, at::empty_like(mean)};
}
std::tuple<Tensor, Tensor> counted_adain_gradient(const Tensor& dout,
                                                  const Tensor& x,
                                                  const Tensor& style,
                                                  const Tensor& /*mean*/,
                                                  const Tensor& /*inverse*/) {
  return {counted_norm("adain gradient", 3, dout, x, 2), at::empty_like(style)};
}

struct LreluSizes {
  int64_t out_h, out_w, mid_h, mid_w;
};
LreluSizes lrelu_sizes_of(const Tensor& x, const FilteredLrelu& how) {
  const auto taps = [](const Tensor& f, int64_t axis) {
    return f.defined() ? f.size(axis == 0 ? 0 : -1) : int64_t{1};
  };
  const auto side = [&](int64_t in, int64_t pads, int64_t axis) {
    const int64_t reach = taps(how.up_filter, axis) + taps(how.down_filter, axis);
    return (in * how.up + pads + 1 - reach) / how.down + 1;
  };
  const auto& p = how.padding;
  const int64_t h = side(x.size(2), p[2] + p[3], 0), w = side(x.size(3), p[0] + p[1], 1);
  return {h,
          w,
          (h - 1) * how.down + taps(how.down_filter, 0),
          (w - 1) * how.down + taps(how.down_filter, 1)};
}

// Strips, which know StyleGAN3's separable filters, take maps as they lie; others are copied.
Tensor as_filtered(const Tensor& maps, const FilteredLrelu& how) {
  const auto separable = [](const Tensor& f) { return !f.defined() || f.dim() == 1; };
  return separable(how.up_filter) && separable(how.down_filter) ? maps : maps.contiguous();
}
Tensor filtered_result(const Tensor& x, const LreluSizes& sizes) {
  return at::empty({x.size(0), x.size(1), sizes.out_h, sizes.out_w},
                   x.options().memory_format(x.suggest_memory_format()));
}

std::tuple<Tensor, Tensor> counted_filtered_lrelu(const Tensor& maps,
                                                  const Tensor& b,
                                                  const FilteredLreluStep& step,
                                                  bool with_slopes) {
  const Tensor x = as_filtered(maps, step.how);
  const LreluSizes sizes = lrelu_sizes_of(x, step.how);
  const Tensor out = filtered_result(x, sizes);
  const Tensor slopes = with_slopes
                            ? at::empty({x.size(0) * x.size(1), sizes.mid_h, (sizes.mid_w + 3) / 4},
                                        x.options().dtype(at::kByte))
                            : Tensor();
  count_call("filtered_lrelu", 1, {x, b}, {out, slopes});
  return {out, slopes};
}

Tensor counted_filtered_slopes(const Tensor& maps,
                               const Tensor& slopes,
                               const FilteredLreluStep& step) {
  const Tensor x = as_filtered(maps, step.how);
  const LreluSizes sizes = lrelu_sizes_of(x, step.how);
  const Tensor out = filtered_result(x, sizes);
  count_call("filtered_lrelu with known slopes", 1, {x, slopes}, {out});
  return out;
}

// Pictures that are doubled, mirrored and sampled, and the adjoint.
Tensor counted_affine_warp(const Tensor& x_in, const AffineWarp& how) {
  const Tensor x = x_in.contiguous();
  const Tensor out = at::empty(
      {x.size(0), x.size(1), 2 * x.size(2) + AffineWarp::kTaps, 2 * x.size(3) + AffineWarp::kTaps},
      x.options().memory_format(at::MemoryFormat::Contiguous));
  count_call("affine_warp", 1, {x, how.transforms, how.margins}, {out});
  return out;
}
Tensor counted_affine_warp_adjoint(const Tensor& dy_in, const AffineWarp& how) {
  const Tensor dy = dy_in.contiguous();
  const Tensor out = at::empty({dy.size(0),
                                dy.size(1),
                                (dy.size(2) - AffineWarp::kTaps) / 2,
                                (dy.size(3) - AffineWarp::kTaps) / 2},
                               dy.options().memory_format(at::MemoryFormat::Contiguous));
  count_call("affine_warp adjoint", 1, {dy, how.transforms, how.margins}, {out});
  return out;
}

std::tuple<Tensor, Tensor> counted_drawn_matrices(const Tensor& p, const DrawnMatrices& how) {
  const auto options = p.options().dtype(at::kDouble);
  const Tensor each = at::empty({how.samples.count, how.colour ? 16 : 9}, options),
               margins = how.colour ? Tensor() : at::empty({4}, options);
  count_call("drawn_matrices", 1, {p, how.key.numbers}, {each, margins});
  return {each, margins};
}

constexpr FusedKernels kCountedFused{
    .half_types = true,
    .act = counted_act,
    .act_gradient = counted_act_gradient,
    .act_second = counted_act_second,
    .act_added = counted_act_added,
    .act_scaled = counted_act_scaled,
    .act_scaled_gradient = counted_act_scaled_gradient,
    .plane_products = counted_plane_products,
    .scaled_planes = counted_scaled_planes,
    .minibatch_std = counted_minibatch_std,
    .minibatch_std_gradient = counted_minibatch_std_gradient,
    .pixel_norm = counted_pixel_norm,
    .pixel_norm_gradient = counted_pixel_norm_gradient,
    .adain = counted_adain,
    .adain_gradient = counted_adain_gradient,
    .filtered_lrelu = counted_filtered_lrelu,
    .filtered_slopes = counted_filtered_slopes,
    .upfirdn2d_added = counted_upfirdn2d_added,
    .affine_warp = counted_affine_warp,
    .affine_warp_adjoint = counted_affine_warp_adjoint,
    .drawn_matrices = counted_drawn_matrices,
};

}  // namespace

const DeviceKernels kCountedKernels{
    .upfirdn2d = counted_upfirdn2d,
    .bias_act = counted_bias_act,
    .bias_act_gradient = counted_bias_act_gradient,
    .draw = counted_draw,
    .fused = &kCountedFused,
};

}  // namespace gantrain
