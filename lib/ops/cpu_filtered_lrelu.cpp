// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/parallel.h"
#include "core/torch.h"
#include "cpu_kernels/filtered_lrelu_plan.h"
#include "cpu_kernels/kernels.h"
#include "ops/cpu_fused.h"

namespace gantrain {

using at::Tensor;

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
  if (slopes.defined()) {
    plan.read({slopes.size(1), slopes.size(2), step.slope_y, step.slope_x});
  } else {
    plan.read({0, 0, 0, 0});
  }
  return computed(x, plan.task(), slopes);
}

}  // namespace gantrain
