// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "ops/device_kernels.h"
#include "ops/filtered_lrelu/filtered_lrelu_gpu.h"
#include "ops/gpu/table_cuda.h"

namespace gantrain {

// The tensors of one filtered_lrelu(), or of one with slopes that are read, and what its kernel is
// given. A type of its own, so that tests can ask which body these arguments get.
struct FilteredLreluCall {
  at::Tensor x, b, up_filter, down_filter, slopes, out;
  cuda_kernels::FilteredLreluArguments arguments{};

  // `saved`: slopes that are read, whose form says what computes this.
  FilteredLreluCall(const at::Tensor& maps,
                    const at::Tensor& bias,
                    const FilteredLreluStep& step,
                    const at::Tensor& saved = {})
      : x(maps), slopes(saved) {
    const FilteredLrelu& how = step.how;
    b = bias.defined() ? bias.contiguous() : bias;
    up_filter = how.up_filter.defined() ? how.up_filter.contiguous() : how.up_filter;
    down_filter = how.down_filter.defined() ? how.down_filter.contiguous() : how.down_filter;
    auto& a = arguments;
    a.type = kernel_type(x);
    TORCH_CHECK(a.type != cuda_kernels::Type::kFloat64, "filtered_lrelu has no kernel for float64");
    a.samples = x.size(0);
    a.channels = x.size(1);
    a.in_h = pixels(x.size(2) * how.up);
    a.in_w = pixels(x.size(3) * how.up);
    a.in_h /= static_cast<int>(how.up);
    a.in_w /= static_cast<int>(how.up);
    a.up = static_cast<int>(how.up);
    a.down = static_cast<int>(how.down);
    const auto& p = how.padding;
    a.pad_x = pixels(p[0]);
    a.pad_y = pixels(p[2]);
    a.up_filter = filter_of(up_filter);
    a.down_filter = filter_of(down_filter);
    const auto size = [&](int64_t in, int64_t pads, int taps) {
      return pixels((in * how.up + pads + 1 - taps) / how.down + 1);
    };
    a.out_h = size(x.size(2), p[2] + p[3], a.up_filter.taps_y + a.down_filter.taps_y);
    a.out_w = size(x.size(3), p[0] + p[1], a.up_filter.taps_x + a.down_filter.taps_x);
    a.flip = step.flip;
    a.gain = static_cast<float>(how.gain * static_cast<double>(how.up * how.up));
    a.slope = static_cast<float>(how.slope);
    a.clamp = static_cast<float>(how.clamp);
    a.strips = saved.defined() ? saved.dim() == 4 : has_strips(a);
    TORCH_CHECK(!a.strips || has_strips(a), "filtered_lrelu: slopes of another step");
    // A tile is one of a plane: of channels-last maps it would use 2 bytes of every 32 that it
    // reads, which costs several times as much as this copy.
    if (!a.strips) x = x.contiguous();
    out = at::empty({a.samples, a.channels, a.out_h, a.out_w},
                    x.options().memory_format(a.strips ? x.suggest_memory_format()
                                                       : at::MemoryFormat::Contiguous));
    a.x_strides = strides_of(x);
    a.out_strides = strides_of(out);
    a.x = x.const_data_ptr();
    a.bias = b.defined() ? b.const_data_ptr() : nullptr;
    a.out = out.mutable_data_ptr();
    // Blocks are numbered in 31 bits; the smallest tile has 4 pixels.
    TORCH_CHECK(out.numel() / 4 + a.samples * a.channels < int64_t{1} << 31,
                "filtered_lrelu: maps of ",
                out.sizes(),
                " are too large");
  }

  void write_slopes() {
    auto& a = arguments;
    const auto options = x.options().dtype(at::kByte).memory_format(at::MemoryFormat::Contiguous);
    slopes = a.strips
                 ? at::empty({a.samples * a.slope_groups(),
                              a.slope_quads(),
                              a.mid_w(),
                              cuda_kernels::kSlopeLanes},
                             options)
                 : at::empty({a.samples * a.channels, a.mid_h(), a.slope_columns() / 4}, options);
    a.slopes = slopes.mutable_data_ptr<uint8_t>();
  }

  void read_slopes(const FilteredLreluStep& step) {
    auto& a = arguments;
    a.reads_slopes = true;
    if (!slopes.defined()) return;
    a.slopes = slopes.mutable_data_ptr<uint8_t>();
    a.slope_rows = pixels(slopes.size(1) * (a.strips ? 4 : 1));
    a.read_columns = pixels(slopes.size(2) * (a.strips ? 1 : 4));
    a.slope_y = pixels(step.slope_y);
    a.slope_x = pixels(step.slope_x);
  }

 private:
  static cuda_kernels::MapStrides strides_of(const at::Tensor& t) {
    return {t.stride(0), t.stride(1), t.stride(2), t.stride(3)};
  }
  static int pixels(int64_t n) {
    constexpr int64_t kMost = int64_t{1} << 29;
    TORCH_CHECK(n < kMost && n > -kMost, "filtered_lrelu: no picture has ", n, " pixels a row");
    return static_cast<int>(n);
  }
  static cuda_kernels::PlaneFilter filter_of(const at::Tensor& f) {
    if (!f.defined()) return {nullptr, 1, 1, true};
    const int y = pixels(f.size(0)), x = pixels(f.size(-1));
    return {f.const_data_ptr<float>(), y, x, f.dim() == 1};
  }
};

}  // namespace gantrain
