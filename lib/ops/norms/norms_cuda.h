// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tensors of one norm, or of its derivative where dout is defined, and what its kernels are
// given. Types of their own, so that tests can ask about the accesses.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "ops/gpu/table_cuda.h"
#include "ops/norms/norms_gpu.h"

namespace gantrain {

// x and dout side by side in memory: planes, or channels last.
struct NormTensors {
  at::Tensor dout, x, out;
  bool channels_last;

  NormTensors(const at::Tensor& gradient, const at::Tensor& input) {
    const auto format = input.suggest_memory_format();
    x = input.contiguous(format);
    if (gradient.defined()) dout = gradient.to(x.scalar_type()).contiguous(format);
    out = at::empty_like(x);
    channels_last = format == at::MemoryFormat::ChannelsLast;
    TORCH_CHECK(type() != cuda_kernels::Type::kFloat64, "no norm kernel for ", x.scalar_type());
  }
  cuda_kernels::Type type() const { return kernel_type(x); }
  const void* gradient() const { return dout.defined() ? dout.const_data_ptr() : nullptr; }
  int64_t pixels() const { return x.size(2) * x.size(3); }
};

struct PixelNormCall {
  NormTensors maps;
  cuda_kernels::PixelNormArguments arguments;

  PixelNormCall(const at::Tensor& dout, const at::Tensor& x, double eps) : maps(dout, x) {
    const int64_t samples = x.size(0), channels = x.size(1), pixels = maps.pixels();
    arguments.type = maps.type();
    arguments.channels = maps.channels_last
                             ? cuda_kernels::SummedAxis{samples * pixels, channels, 1}
                             : cuda_kernels::SummedAxis{samples, channels, pixels};
    arguments.x = maps.x.const_data_ptr();
    arguments.dout = maps.gradient();
    arguments.out = maps.out.mutable_data_ptr();
    arguments.eps = static_cast<float>(eps);
  }
};

struct AdainCall {
  NormTensors maps;
  at::Tensor style, style_gradient, mean, inverse, work;
  cuda_kernels::AdainArguments arguments;

  // mean and inverse are undefined in the forward pass, which computes them.
  struct Statistics {
    at::Tensor mean, inverse;
  };
  AdainCall(const at::Tensor& dout,
            const at::Tensor& x,
            const at::Tensor& style_in,
            const Statistics& known,
            double eps)
      : maps(dout, x) {
    const int64_t samples = x.size(0), channels = x.size(1), pixels = maps.pixels();
    const auto wide = x.options().dtype(at::kFloat);
    style = style_in.to(at::kFloat).contiguous();
    mean = dout.defined() ? known.mean.contiguous() : at::empty({samples, channels}, wide);
    inverse = dout.defined() ? known.inverse.contiguous() : at::empty_like(mean);
    arguments.type = maps.type();
    arguments.pixels = maps.channels_last ? cuda_kernels::SummedAxis{samples, pixels, channels}
                                          : cuda_kernels::SummedAxis{samples * channels, pixels, 1};
    arguments.channels = channels;
    arguments.x = maps.x.const_data_ptr();
    arguments.dout = maps.gradient();
    arguments.out = maps.out.mutable_data_ptr();
    arguments.style = style.const_data_ptr<float>();
    if (dout.defined()) style_gradient = at::empty_like(style);
    arguments.style_gradient = dout.defined() ? style_gradient.mutable_data_ptr<float>() : nullptr;
    arguments.mean = mean.mutable_data_ptr<float>();
    arguments.inverse = inverse.mutable_data_ptr<float>();
    work = at::empty({adain_work(arguments)}, wide);
    arguments.work = work.mutable_data_ptr<float>();
    arguments.eps = static_cast<float>(eps);
  }
};

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
