// SPDX-License-Identifier: Apache-2.0
#include "ops/upfirdn2d/upfirdn2d.h"

#include <algorithm>

#include "core/parallel.h"
#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/device_kernels.h"
#include "ops/kernels.h"
#include "ops/operator.h"
#include "ops/upfirdn2d/upfirdn2d_cpu.h"
#include "ops/vector/cpu_kernels.h"

namespace gantrain {

namespace {

// Puts up - 1 zeros after each pixel.
Tensor zeros_inserted(const Tensor& x, const Scale2d& up) {
  if (up.x == 1 && up.y == 1) return x;
  const int64_t n = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3);
  return at::constant_pad_nd(x.reshape({n, c, h, 1, w, 1}), {0, up.x - 1, 0, 0, 0, up.y - 1})
      .reshape({n, c, h * up.y, w * up.x});
}

// For correlation, with the gain in it.
FirFilter filter_of(const Tensor& f, const UpFirDn& how) {
  const Tensor taps = f.contiguous();  // float, as its caller's picture
  const auto* begin = taps.const_data_ptr<float>();
  FirFilter filter{{begin, begin + taps.numel()}, taps.size(0), taps.size(1)};
  if (!how.flip_filter) std::reverse(filter.values.begin(), filter.values.end());
  for (double& value : filter.values) value *= how.gain;
  return filter;
}

}  // namespace

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

Tensor cpu_upfirdn2d(const Tensor& x, const Tensor& f, const UpFirDn& how) {
  const at::ScalarType type = x.scalar_type();
  if (type == at::kHalf || type == at::kBFloat16)
    return cpu_upfirdn2d(x.to(at::kFloat), f, how).to(type);
  if (type != at::kFloat) return kComposedKernels.upfirdn2d(x, f, how);
  const at::MemoryFormat format = x.suggest_memory_format();
  const Tensor in = x.contiguous(format);
  const bool channels_last = format == at::MemoryFormat::ChannelsLast;
  const Size2d size = resampled_size(x.sizes(), f.sizes(), how);
  Tensor out = at::empty({x.size(0), x.size(1), size.y, size.x}, x.options(), format);

  const int64_t inner = channels_last ? x.size(1) : 1;
  const FirPlan plan(filter_of(f, how),
                     {x.size(2), size.y, how.up.y, how.down.y, how.padding.y0},
                     {x.size(3), size.x, how.up.x, how.down.x, how.padding.x0},
                     inner);
  const FirTask& task = plan.task();
  const int64_t rows = x.size(0) * (channels_last ? 1 : x.size(1)) * size.y;
  constexpr int64_t kGrain = 16384;  // numbers that a thread is worth
  const auto* from = in.const_data_ptr<float>();
  auto* to = out.mutable_data_ptr<float>();
  const FirKernels& kernels = cpu_kernels().fir;
  parallel_for(0, rows, kGrain / (size.x * inner) + 1, [&](int64_t first, int64_t last) {
    std::vector<float> scratch(task.scratch);
    kernels.rows(task, from, to, scratch.data(), first, last);
  });
  return out;
}

namespace {

int64_t floor_half(int64_t n) { return n >= 0 ? n / 2 : -((1 - n) / 2); }

int64_t out_size(int64_t in, int64_t up, int64_t pad, int64_t taps, int64_t down) {
  return (in * up + pad - taps + down) / down;
}

bool is_identity(const Tensor& f, const UpFirDn& how) {
  const Padding2d& p = how.padding;
  return !f.defined() && how.gain == 1 && how.up.x == 1 && how.up.y == 1 && how.down.x == 1 &&
         how.down.y == 1 && p.x0 == 0 && p.x1 == 0 && p.y0 == 0 && p.y1 == 0;
}

// The adjoint operation: `up` and `down` change places, and the filter is reversed. The pads of
// each axis become [taps - p0 - 1, in * up - out * down + p0 - up + 1].
UpFirDn adjoint(const UpFirDn& how, const Tensor& f, at::IntArrayRef in, at::IntArrayRef out) {
  UpFirDn back = how;
  back.up = how.down;
  back.down = how.up;
  back.flip_filter = !how.flip_filter;
  back.padding.x0 = f.size(1) - how.padding.x0 - 1;
  back.padding.y0 = f.size(0) - how.padding.y0 - 1;
  back.padding.x1 = in[3] * how.up.x - out[3] * how.down.x + how.padding.x0 - how.up.x + 1;
  back.padding.y1 = in[2] * how.up.y - out[2] * how.down.y + how.padding.y0 - how.up.y + 1;
  return back;
}

// The result of the device's kernel. What its derivative is made of is kept.
Tensor filtered_by_kernel(AutogradContext* context,
                          const Tensor& x,
                          const Tensor& f,
                          const UpFirDn& how) {
  const Tensor y = device_kernels(x.device().type()).upfirdn2d(x, f, how);
  save(context, {f});
  hold(context, "adjoint", adjoint(how, f, x.sizes(), y.sizes()));
  return y;
}

// The derivative of upfirdn2d is another upfirdn2d, so that one kernel serves derivatives of any
// order.
struct UpFirDnFunction : torch::autograd::Function<UpFirDnFunction> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& x,
                        const Tensor& f,
                        const UpFirDn& how) {
    return filtered_by_kernel(context, x, f, how);
  }

  static variable_list backward(AutogradContext* context, variable_list dy) {
    if (!dy[0].defined()) return {Tensor(), Tensor(), Tensor()};
    const WithoutAutocast exact;
    return {apply(dy[0], context->get_saved_variables()[0], held<UpFirDn>(context, "adjoint")),
            Tensor(),
            Tensor()};
  }
};

struct BesideFunction : torch::autograd::Function<BesideFunction> {
  static variable_list forward(AutogradContext* context,
                               const Tensor& x,
                               const Tensor& f,
                               const UpFirDn& how) {
    return {x, filtered_by_kernel(context, x, f, how)};
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    variable_list result(3);
    const Tensor &by_x = grad[0], &by_y = grad[1];
    result[0] = by_x;
    if (!by_y.defined()) return result;
    const WithoutAutocast exact;
    const Tensor f = context->get_saved_variables()[0];
    const auto& back = held<UpFirDn>(context, "adjoint");
    if (by_x.defined() && !at::GradMode::is_enabled()) {
      result[0] = fused_kernels_of(by_y).upfirdn2d_added(by_y, f, back, by_x);
    } else {
      const Tensor spread = UpFirDnFunction::apply(by_y, f, back);
      result[0] = by_x.defined() ? by_x + spread : spread;
    }
    return result;
  }
};

// f is [h, w].
Tensor filtered(const Tensor& x, const Tensor& f, const UpFirDn& how) {
  const Size2d size = resampled_size(x.sizes(), f.sizes(), how);
  TORCH_CHECK(size.x > 0 && size.y > 0,
              "upfirdn2d: nothing is left of an image ",
              x.sizes(),
              " under a filter ",
              f.sizes());
  if (kernels_in_use() == KernelSet::kRef) return kComposedKernels.upfirdn2d(x, f, how);
  return UpFirDnFunction::apply(x, f, how);
}

// `padding` and what keeps f centred where the size is multiplied (sign 1) or divided (-1) by `by`.
Padding2d kept_centred(Padding2d padding, const Tensor& f, const Scale2d& by, int64_t sign) {
  const int64_t taps_x = f.defined() ? f.size(-1) : 1, taps_y = f.defined() ? f.size(0) : 1;
  padding.x0 += floor_half(taps_x + sign * (by.x - 1));
  padding.x1 += floor_half(taps_x - by.x);
  padding.y0 += floor_half(taps_y + sign * (by.y - 1));
  padding.y1 += floor_half(taps_y - by.y);
  return padding;
}

}  // namespace

Size2d resampled_size(at::IntArrayRef x, at::IntArrayRef f, const UpFirDn& how) {
  const Padding2d& p = how.padding;
  return {out_size(x.back(), how.up.x, p.x0 + p.x1, f.back(), how.down.x),
          out_size(x[x.size() - 2], how.up.y, p.y0 + p.y1, f[f.size() - 2], how.down.y)};
}

Tensor setup_filter(const Tensor& taps, const FilterSetup& how) {
  Tensor f = taps.defined() ? taps.to(at::kFloat) : torch::ones({1});
  TORCH_CHECK(f.dim() <= 2 && f.numel() > 0, "a filter has one or two axes, not ", f.sizes());
  if (f.dim() == 0) f = f.unsqueeze(0);
  constexpr int64_t kSeparableTaps = 8;
  const bool separable =
      f.dim() == 1 && (how.separable < 0 ? f.numel() >= kSeparableTaps : how.separable == 1);
  if (f.dim() == 1 && !separable) f = at::outer(f, f);
  if (how.normalise) f = f / f.sum();
  if (how.flip) f = f.dim() == 1 ? f.flip({0}) : f.flip({0, 1});
  return f * std::pow(how.gain, static_cast<double>(f.dim()) / 2);
}

Tensor setup_filter(const std::vector<double>& taps) {
  return setup_filter(torch::tensor(taps, at::kDouble), {});
}

Tensor upfirdn2d(const Tensor& x, const Tensor& f, const UpFirDn& how) {
  TORCH_CHECK(x.dim() == 4, "upfirdn2d takes [N, C, H, W], not ", x.sizes());
  if (is_identity(f, how)) return x;
  const WithoutAutocast exact;
  const at::ScalarType type = statistics_type(x.scalar_type());
  const Tensor filter =
      f.defined() ? f.detach().to(type) : at::ones({1, 1}, x.options().dtype(type));
  if (filter.dim() == 2) return filtered(x, filter, how);

  // One pass for each axis.
  UpFirDn along_x, along_y;
  along_x.up.x = how.up.x;
  along_x.down.x = how.down.x;
  along_x.padding = {how.padding.x0, how.padding.x1, 0, 0};
  along_y.up.y = how.up.y;
  along_y.down.y = how.down.y;
  along_y.padding = {0, 0, how.padding.y0, how.padding.y1};
  along_x.flip_filter = along_y.flip_filter = how.flip_filter;
  along_y.gain = how.gain;
  return filtered(filtered(x, filter.unsqueeze(0), along_x), filter.unsqueeze(1), along_y);
}

Filtered upfirdn2d_beside(const Tensor& x, const Tensor& f, const UpFirDn& how) {
  const WithoutAutocast exact;
  const bool fits = f.dim() == 2 && has_fused_kernel(&FusedKernels::upfirdn2d_added, x) &&
                    at::GradMode::is_enabled() && x.requires_grad();
  if (!fits) return {x, upfirdn2d(x, f, how)};
  const Tensor filter = f.detach().to(statistics_type(x.scalar_type()));
  const variable_list both = BesideFunction::apply(x, filter, how);
  return {both[0], both[1]};
}

Padding2d centred_up(Padding2d padding, const Tensor& f, const Scale2d& by) {
  return kept_centred(padding, f, by, /*sign=*/1);
}

Padding2d centred_down(Padding2d padding, const Tensor& f, const Scale2d& by) {
  return kept_centred(padding, f, by, /*sign=*/-1);
}

Tensor filter2d(const Tensor& x, const Tensor& f, const UpFirDn& how) {
  TORCH_CHECK(how.up.x == 1 && how.up.y == 1 && how.down.x == 1 && how.down.y == 1,
              "filter2d keeps the size");
  return upsample2d(x, f, how);
}

Tensor upsample2d(const Tensor& x, const Tensor& f, UpFirDn how) {
  TORCH_CHECK(how.down.x == 1 && how.down.y == 1, "upsample2d does not down-sample");
  how.padding = centred_up(how.padding, f, how.up);
  how.gain *= static_cast<double>(how.up.x * how.up.y);
  return upfirdn2d(x, f, how);
}

Tensor downsample2d(const Tensor& x, const Tensor& f, UpFirDn how) {
  TORCH_CHECK(how.up.x == 1 && how.up.y == 1, "downsample2d does not up-sample");
  how.padding = centred_down(how.padding, f, how.down);
  return upfirdn2d(x, f, how);
}

}  // namespace gantrain
