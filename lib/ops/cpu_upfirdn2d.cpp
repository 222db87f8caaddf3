// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/parallel.h"
#include "core/torch.h"
#include "cpu_kernels/fir_plan.h"
#include "cpu_kernels/kernels.h"
#include "ops/device_kernels.h"

namespace gantrain {

using at::Tensor;

namespace {

// For correlation, with the gain in it.
FirFilter filter_of(const Tensor& f, const UpFirDn& how) {
  const Tensor taps = f.to(at::kDouble).contiguous();
  const auto* begin = taps.const_data_ptr<double>();
  FirFilter filter{{begin, begin + taps.numel()}, taps.size(0), taps.size(1)};
  if (!how.flip_filter) std::reverse(filter.values.begin(), filter.values.end());
  for (double& value : filter.values) value *= how.gain;
  return filter;
}

}  // namespace

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

}  // namespace gantrain
