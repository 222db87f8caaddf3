// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "ops/bias_act/bias_act_gpu.h"
#include "ops/gpu/planes_walk.h"
#include "ops/gpu/table_cuda.h"

namespace gantrain {

using at::Tensor;

using cuda_kernels::BiasActGradientArrays;
using cuda_kernels::BiasActTask;
using cuda_kernels::Maps;
using cuda_kernels::Order;

namespace {

// Whether two tensors of the same shape lie in memory in the same way.
bool same_order(const Tensor& a, const Tensor& b) {
  for (int64_t d = 0; d < a.dim(); ++d) {
    if (a.size(d) > 1 && a.stride(d) != b.stride(d)) return false;
  }
  return true;
}

// One call of a kernel. `like` decides in which order the numbers of all tensors of the call lie.
class Call {
 public:
  Call(const Tensor& like, const Tensor& b, const BiasActNumbers& how, bool by_channel)
      : given_(like),
        like_(like.is_non_overlapping_and_dense() ? like : like.contiguous()),
        bias_(b.defined() ? b.contiguous() : b),
        stream_(current_stream(like)),
        task_{kernel_type(like),
              maps_of(like_, how.dim, by_channel),
              how.act,
              how.alpha,
              how.gain,
              how.clamp,
              data(bias_)} {}

  const BiasActTask& task() const { return task_; }
  cuda_kernels::Stream stream() const { return stream_; }
  Tensor result() const { return at::empty_like(like_); }

  // Returns t with its numbers in the order of the call.
  Tensor ordered(const Tensor& t) const {
    if (t.is_same(given_)) return like_;
    if (!t.defined() || (t.is_non_overlapping_and_dense() && same_order(t, like_))) return t;
    return at::empty_like(like_).copy_(t);
  }

 private:
  // In a dense tensor, the stride of an axis is how many numbers lie between two of its indices.
  static Maps maps_of(const Tensor& x, int64_t dim, bool by_channel) {
    if (!by_channel || x.size(dim) <= 1) return {Order::kPlanes, 1, 1, x.numel()};
    const int64_t channels = x.size(dim), inner = x.stride(dim), outer = x.numel() / channels;
    if (inner == 1) return {Order::kRows, 1, channels, outer};
    return {Order::kPlanes, outer / inner, channels, inner};
  }

  Tensor given_, like_, bias_;
  cuda_kernels::Stream stream_;
  BiasActTask task_;
};

// Gives up the sums of dx to the bias, after the kernel that leaves its parts' sums in `parts`.
Tensor summed(const Call& call,
              const cuda_kernels::Parts& shape,
              const Tensor& parts,
              const Tensor& dy) {
  Tensor db = at::empty({shape.channels}, dy.options());
  cuda_kernels::sum_parts({.type = call.task().type,
                           .shape = shape,
                           .over_samples = true,
                           .factor = 1,
                           .parts = parts.const_data_ptr(),
                           .out = db.mutable_data_ptr()},
                          call.stream());
  check_launch();
  return db;
}

}  // namespace

Tensor cuda_bias_act(const Tensor& x, const Tensor& b, const BiasActNumbers& how) {
  if (x.numel() == 0) return at::empty_like(x);
  const Call call(x, b, how, b.defined());
  const Tensor in = call.ordered(x);
  Tensor y = call.result();
  cuda_kernels::bias_act(call.task(), in.const_data_ptr(), y.mutable_data_ptr(), call.stream());
  check_launch();
  return y;
}

BiasActGradients cuda_bias_act_gradient(const Tensor& dy,
                                        const Tensor& y,
                                        const BiasActNumbers& how,
                                        bool sum_to_bias) {
  if (dy.numel() == 0)
    return {at::empty_like(dy),
            sum_to_bias ? at::zeros({dy.size(how.dim)}, dy.options()) : Tensor()};
  const bool equal = !y.defined() && how.gain == 1;
  if (equal && !sum_to_bias) return {dy, {}};
  const Call call(y.defined() ? y : dy, {}, how, sum_to_bias);
  const Tensor in = call.ordered(dy), saved = call.ordered(y);
  Tensor dx = equal ? dy : call.result();
  BiasActGradientArrays arrays{
      in.const_data_ptr(), data(saved), equal ? nullptr : dx.mutable_data_ptr(), nullptr};
  const cuda_kernels::Parts shape = cuda_kernels::gradient_parts(call.task(), arrays);
  Tensor parts;
  if (sum_to_bias) {
    const bool wide = dy.scalar_type() == at::kDouble;
    parts = at::empty({shape.count()}, dy.options().dtype(wide ? at::kDouble : at::kFloat));
    arrays.sums = parts.mutable_data_ptr();
  }
  cuda_kernels::bias_act_gradient(call.task(), arrays, call.stream());
  check_launch();
  return {dx, sum_to_bias ? summed(call, shape, parts, dy) : Tensor()};
}

}  // namespace gantrain
