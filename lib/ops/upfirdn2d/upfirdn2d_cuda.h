// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "ops/gpu/table_cuda.h"
#include "ops/upfirdn2d/upfirdn2d.h"
#include "ops/upfirdn2d/upfirdn2d_gpu.h"

namespace gantrain {

// The tensors of one upfirdn2d() and what its kernel is given. A type of its own, so that tests can
// ask which body these arguments get.
struct UpFirDnCall {
  at::Tensor x, f, out;
  cuda_kernels::UpFirDnArguments arguments;

  UpFirDnCall(const at::Tensor& image, const at::Tensor& filter, const UpFirDn& how) {
    const auto format = image.suggest_memory_format();
    const at::ScalarType type = image.scalar_type();
    x = image.contiguous(format);
    f = filter.to(type == at::kDouble ? at::kDouble : at::kFloat).contiguous();
    const Padding2d& p = how.padding;
    arguments.type = kernel_type(x);
    arguments.channels_last = format == at::MemoryFormat::ChannelsLast;
    arguments.samples = x.size(0);
    arguments.channels = x.size(1);
    arguments.along_y = axis({x.size(2), how.up.y, how.down.y, p.y0, p.y1, f.size(0)});
    arguments.along_x = axis({x.size(3), how.up.x, how.down.x, p.x0, p.x1, f.size(1)});
    arguments.flip_filter = how.flip_filter;
    arguments.gain = how.gain;
    out = at::empty({x.size(0), x.size(1), arguments.along_y.out, arguments.along_x.out},
                    x.options().memory_format(format));
    arguments.x = x.const_data_ptr();
    arguments.f = f.const_data_ptr();
    arguments.out = out.mutable_data_ptr();
  }

 private:
  struct Axis {
    int64_t in, up, down, before, after, taps;
  };
  static cuda_kernels::FirAxis axis(const Axis& a) {
    const int64_t padded = a.in * a.up + a.before + a.after;
    constexpr int64_t kMost = int64_t{1} << 30;
    for (const int64_t size : {a.in, a.up, a.down, a.in * a.up, a.taps, padded + a.down})
      TORCH_CHECK(size < kMost, "upfirdn2d: no image has ", size, " pixels a row");
    for (const int64_t pad : {a.before, a.after})
      TORCH_CHECK(pad < kMost && pad > -kMost, "upfirdn2d: no padding is of ", pad, " pixels");
    const auto whole = [](int64_t n) { return static_cast<int>(n); };
    return {whole(a.in),
            whole((padded - a.taps + a.down) / a.down),
            whole(a.up),
            whole(a.down),
            whole(a.before),
            whole(a.taps)};
  }
};

}  // namespace gantrain
