// SPDX-License-Identifier: Apache-2.0
#include "ops/filtered_lrelu/filtered_lrelu.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/bias_act/bias_act.h"
#include "ops/device_kernels.h"
#include "ops/filtered_lrelu/filtered_lrelu_cpu.h"
#include "ops/operator.h"
#include "ops/upfirdn2d/upfirdn2d.h"
#include "ops/vector/cpu_kernels.h"

namespace gantrain {

namespace {

// For correlation.
PlaneFilter filter_of(const Tensor& f, bool flip) {
  if (!f.defined()) return {{1}, true, 1, 1};
  const Tensor taps = f.to(at::kDouble).contiguous();
  const auto* begin = taps.const_data_ptr<double>();
  PlaneFilter filter{{begin, begin + taps.numel()}, f.dim() == 1, f.size(0), f.size(-1)};
  if (!flip) std::reverse(filter.values.begin(), filter.values.end());
  return filter;
}

FilteredLreluShape shape_of(const Tensor& x, const FilteredLrelu& how) {
  const auto& p = how.padding;
  return {x.size(0),
          x.size(1),
          x.size(2),
          x.size(3),
          how.up,
          how.down,
          p[2],
          p[3],
          p[0],
          p[1],
          how.gain,
          how.slope,
          how.clamp};
}

Tensor computed(const Tensor& x, const FilteredLreluTask& task, const Tensor& slopes) {
  const at::MemoryFormat format = x.suggest_memory_format();
  const bool last = format == at::MemoryFormat::ChannelsLast;
  const Tensor in = x.contiguous(format);
  Tensor out = at::empty({task.samples, task.channels, task.out_h, task.out_w},
                         x.options().memory_format(format));
  // Axes of size 1 may have any strides.
  const auto view = [&](const Tensor& t, float* data) -> MapsView {
    const int64_t c = t.size(1), h = t.size(2), w = t.size(3);
    if (last) return {data, h * w * c, 1, w * c, c};
    return {data, c * h * w, h * w, w, 1};
  };
  const MapsView from = view(in, const_cast<float*>(in.const_data_ptr<float>()));
  const MapsView to = view(out, out.mutable_data_ptr<float>());
  auto* bits = slopes.defined() ? slopes.mutable_data_ptr<uint8_t>() : nullptr;
  const FilteredLreluKernels& kernels = cpu_kernels().filtered_lrelu;
  parallel_for(0, kernels.parts(task), 1, [&](int64_t first, int64_t end) {
    std::vector<float> scratch(kernels.scratch(task));
    kernels.compute(task, from, to, bits, scratch.data(), first, end);
  });
  return out;
}

}  // namespace

std::tuple<Tensor, Tensor> cpu_filtered_lrelu(const Tensor& x,
                                              const Tensor& b,
                                              const FilteredLreluStep& step,
                                              bool with_slopes) {
  const FilteredLrelu& how = step.how;
  FilteredLreluPlan plan(
      shape_of(x, how), filter_of(how.up_filter, step.flip), filter_of(how.down_filter, step.flip));
  const Tensor bias = b.defined() ? b.contiguous() : b;
  if (bias.defined()) plan.add_bias(bias.const_data_ptr<float>());
  const FilteredLreluTask& task = plan.task();
  Tensor slopes;
  if (with_slopes) {
    // The number of rows and columns goes along.
    const int64_t bytes = cpu_kernels().filtered_lrelu.slope_bytes(
        task.samples, task.channels, task.mid_h, task.mid_w);
    const int64_t samples = std::max<int64_t>(task.mid_h * task.mid_w, 1);
    slopes = at::empty({bytes / samples, task.mid_h, task.mid_w}, x.options().dtype(at::kByte));
  }
  return {computed(x, task, slopes), slopes};
}

Tensor cpu_filtered_slopes(const Tensor& x, const Tensor& slopes, const FilteredLreluStep& step) {
  FilteredLreluPlan plan(shape_of(x, step.how),
                         filter_of(step.how.up_filter, step.flip),
                         filter_of(step.how.down_filter, step.flip));
  plan.read(slopes.defined()
                ? ReadSlopes{slopes.size(1), slopes.size(2), step.slope_y, step.slope_x}
                : ReadSlopes{});
  return computed(x, plan.task(), slopes);
}

namespace {

Tensor summed_to_bias(const Tensor& dx) {
  const at::ScalarType type = statistics_type(dx.scalar_type());
  return dx.sum({0, 2, 3}, /*keepdim=*/false, type).to(dx.scalar_type());
}

int64_t taps_of(const Tensor& filter, int64_t axis) {
  return !filter.defined() ? 1 : filter.size(filter.dim() == 1 ? 0 : axis);
}

void check_filter(const char* name, const Tensor& filter) {
  TORCH_CHECK(!filter.defined() || ((filter.dim() == 1 || filter.dim() == 2) && filter.numel() > 0),
              "filtered_lrelu: ",
              name,
              " has one or two axes with at least one tap, not ",
              filter.sizes());
}

void check_axis(const char* name, int64_t pixels, const FilteredLrelu& how, int64_t axis) {
  const int64_t up_taps = taps_of(how.up_filter, axis), down_taps = taps_of(how.down_filter, axis);
  TORCH_CHECK(pixels >= up_taps + down_taps - 1,
              "filtered_lrelu: ",
              pixels,
              " pixels along ",
              name,
              " after up-sampling and padding are too few for filters of ",
              up_taps,
              " and ",
              down_taps,
              " taps");
}

void check(const Tensor& x, const Tensor& b, const FilteredLrelu& how) {
  TORCH_CHECK(x.dim() == 4, "filtered_lrelu takes [N, C, H, W], not ", x.sizes());
  TORCH_CHECK(!b.defined() || (b.dim() == 1 && b.size(0) == x.size(1)),
              "filtered_lrelu: no bias ",
              b.sizes(),
              " for the channels of ",
              x.sizes());
  TORCH_CHECK(!b.defined() || b.scalar_type() == x.scalar_type(),
              "filtered_lrelu: the bias is ",
              b.scalar_type(),
              ", the input ",
              x.scalar_type());
  TORCH_CHECK(how.up >= 1 && how.down >= 1,
              "filtered_lrelu: factors are at least 1, not ",
              how.up,
              " and ",
              how.down);
  // Otherwise a sign of the result would not tell the sign before.
  TORCH_CHECK(how.gain > 0 && how.slope >= 0 && how.clamp > 0,
              "filtered_lrelu: gain and clamp must be over 0, the slope at least 0");
  check_filter("up_filter", how.up_filter);
  check_filter("down_filter", how.down_filter);
  const auto& p = how.padding;
  check_axis("x", x.size(3) * how.up + p[0] + p[1], how, 1);
  check_axis("y", x.size(2) * how.up + p[2] + p[3], how, 0);
}

Tensor activated(const Tensor& x, const Tensor& b, const FilteredLrelu& how) {
  BiasAct lrelu;
  lrelu.act = Activation::kLrelu;
  lrelu.alpha = how.slope;
  lrelu.gain = how.gain;
  lrelu.clamp = how.clamp;
  return bias_act(x, b, lrelu);
}

Tensor composed(const Tensor& x, const Tensor& b, const FilteredLrelu& how) {
  const auto& p = how.padding;
  UpFirDn up, down;
  up.up = {how.up, how.up};
  up.padding = {p[0], p[1], p[2], p[3]};
  up.gain = static_cast<double>(how.up * how.up);
  down.down = {how.down, how.down};
  BiasAct biased;
  biased.gain = 1;
  const Tensor u = b.defined() ? bias_act(x, b, biased) : x;
  return upfirdn2d(activated(upfirdn2d(u, how.up_filter, up), {}, how), how.down_filter, down);
}

bool has_kernel(const Tensor& x, at::ScalarType type, const FilteredLrelu& how) {
  int64_t taps = 1;
  for (const Tensor& filter : {how.up_filter, how.down_filter})
    taps = std::max({taps, taps_of(filter, 0), taps_of(filter, 1)});
  return taps <= kMostFilteredTaps && how.up <= kMostFilteredFactor &&
         how.down <= kMostFilteredFactor &&
         has_fused_kernel(&FusedKernels::filtered_lrelu, x, type);
}

// Where every sample of the higher rate has the slope 1, none has to be kept.
bool constant_slope(const FilteredLrelu& how) { return how.slope == 1 && std::isinf(how.clamp); }

// The transposed step: factors and filters change places, and filters are reversed. The pads of
// each axis become [taps of both - 2 - before, in * up - out * down + before - (up - 1)].
FilteredLreluStep transposed(const FilteredLreluStep& step,
                             at::IntArrayRef in,
                             at::IntArrayRef out) {
  const FilteredLrelu& how = step.how;
  FilteredLreluStep back;
  back.how = how;
  back.how.up_filter = how.down_filter;
  back.how.down_filter = how.up_filter;
  back.how.up = how.down;
  back.how.down = how.up;
  back.how.gain =
      how.gain * static_cast<double>(how.up * how.up) / static_cast<double>(how.down * how.down);
  back.flip = !step.flip;
  for (const int64_t axis : {0, 1}) {  // y, x
    const int64_t before = how.padding[axis == 0 ? 2 : 0];
    const int64_t up_taps = taps_of(how.up_filter, axis);
    const int64_t pads[] = {
        up_taps + taps_of(how.down_filter, axis) - 2 - before,
        in[2 + axis] * how.up - out[2 + axis] * how.down + before - (how.up - 1)};
    std::copy(std::begin(pads), std::end(pads), back.how.padding.begin() + (axis == 0 ? 2 : 0));
    // Sample 0 of the transposed step is this sample of the step.
    (axis == 0 ? back.slope_y : back.slope_x) =
        (axis == 0 ? step.slope_y : step.slope_x) + before - (up_taps - 1);
  }
  return back;
}

// x times the slopes of a step; linear in x, so that it serves derivatives of any order.
struct FilteredSlopesFunction : torch::autograd::Function<FilteredSlopesFunction> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& x,
                        const std::optional<Tensor>& slopes,
                        const FilteredLreluStep& step) {
    const Tensor saved = slopes.value_or(Tensor());
    const Tensor y = fused_kernels_of(x).filtered_slopes(x, saved, step);
    save(context, {saved});
    hold(context, "transposed", transposed(step, x.sizes(), y.sizes()));
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list dy) {
    if (!dy[0].defined()) return variable_list(3);
    const WithoutAutocast exact;
    const Tensor slopes = context->get_saved_variables()[0];
    const auto& back = held<FilteredLreluStep>(context, "transposed");
    return {apply(dy[0], present(slopes), back), Tensor(), Tensor()};
  }
};

struct FilteredLreluFunction : torch::autograd::Function<FilteredLreluFunction> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& x,
                        const std::optional<Tensor>& b,
                        const FilteredLreluStep& step,
                        bool with_slopes) {
    const auto [y, slopes] =
        fused_kernels_of(x).filtered_lrelu(x, b.value_or(Tensor()), step, with_slopes);
    save(context, {slopes});
    hold(context, "transposed", transposed(step, x.sizes(), y.sizes()));
    hold(context, "biased", b.has_value());
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list dy) {
    variable_list result(4);
    if (!dy[0].defined()) return result;
    const WithoutAutocast exact;
    const Tensor slopes = context->get_saved_variables()[0];
    const auto& back = held<FilteredLreluStep>(context, "transposed");
    result[0] = FilteredSlopesFunction::apply(dy[0], present(slopes), back);
    if (held<bool>(context, "biased") && context->needs_input_grad(1))
      result[1] = summed_to_bias(result[0]);
    return result;
  }
};

bool resamples(const FilteredLrelu& how) {
  return how.up_filter.defined() || how.down_filter.defined() || how.up != 1 || how.down != 1 ||
         how.padding != std::array<int64_t, 4>{};
}

}  // namespace

Tensor filtered_lrelu(const Tensor& x, const Tensor& b, const FilteredLrelu& how) {
  check(x, b, how);
  const WithoutAutocast exact;
  if (!resamples(how)) return activated(x, b, how);
  // A device whose kernels do not take a half type has them compute in float32.
  const at::ScalarType own = x.scalar_type();
  const at::ScalarType type = has_kernel(x, own, how) ? own : statistics_type(own);
  const Tensor in = x.to(type), bias = b.defined() ? b.to(type) : b;
  if (!has_kernel(x, type, how)) return composed(in, bias, how).to(own);
  FilteredLreluStep step{how};
  for (Tensor* filter : {&step.how.up_filter, &step.how.down_filter}) {
    if (filter->defined()) *filter = filter->detach().to(at::kFloat);
  }
  const bool derivatives = at::GradMode::is_enabled() &&
                           (in.requires_grad() || (bias.defined() && bias.requires_grad()));
  const bool with_slopes = derivatives && !constant_slope(how);
  return FilteredLreluFunction::apply(in, present(bias), step, with_slopes).to(own);
}

}  // namespace gantrain
