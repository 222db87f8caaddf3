// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "ops/gpu/table_cuda.h"
#include "ops/minibatch_std/minibatch_std_gpu.h"

namespace gantrain {

// The tensors of one minibatch_std(), or of its derivative where dout is defined, and what the
// kernels are given. A type of its own, so that tests can ask about the accesses.
struct MinibatchStdCall {
  struct Numbers {
    int64_t g, parts;
    double eps;
  };
  at::Tensor dout, x, out, work;
  cuda_kernels::MinibatchStdArguments arguments;

  MinibatchStdCall(const at::Tensor& gradient, const at::Tensor& input, const Numbers& how) {
    const auto format = input.suggest_memory_format();
    const int64_t n = input.size(0), c = input.size(1), h = input.size(2), w = input.size(3);
    x = input.contiguous(format);
    if (gradient.defined()) {
      dout = gradient.to(x.scalar_type()).contiguous(format);
      out = at::empty_like(x);
    } else {
      out = at::empty({n, c + how.parts, h, w}, x.options().memory_format(format));
    }
    arguments.type = kernel_type(x);
    TORCH_CHECK(arguments.type != cuda_kernels::Type::kFloat64,
                "minibatch_std has no kernel for ",
                x.scalar_type());
    arguments.channels_last = format == at::MemoryFormat::ChannelsLast;
    arguments.g = how.g;
    arguments.groups = n / how.g;
    arguments.channels = c;
    arguments.parts = how.parts;
    arguments.pixels = h * w;
    arguments.x = x.const_data_ptr();
    arguments.dout = dout.defined() ? dout.const_data_ptr() : nullptr;
    arguments.out = out.mutable_data_ptr();
    work = at::empty({minibatch_std_work(arguments)}, x.options().dtype(at::kFloat));
    arguments.work = work.mutable_data_ptr<float>();
    arguments.eps = static_cast<float>(how.eps);
  }
};

}  // namespace gantrain
