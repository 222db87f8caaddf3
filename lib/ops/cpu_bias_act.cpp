// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/parallel.h"
#include "core/torch.h"
#include "cpu_kernels/kernels.h"
#include "ops/device_kernels.h"

namespace gantrain {

using at::Tensor;

namespace {

bool has_kernel(const Tensor& x) { return x.scalar_type() == at::kFloat && x.numel() > 0; }

bool is_channels_last(const Tensor& x) {
  return !x.is_contiguous() && x.is_contiguous(at::MemoryFormat::ChannelsLast);
}

// One call of a kernel. `by_channel` says that there is a bias, or a sum to one.
class Call {
 public:
  // `like` decides in which order the numbers of all tensors of the call lie.
  Call(const Tensor& like, const Tensor& b, const BiasActNumbers& how, bool by_channel)
      : like_(like), channels_(like.size(how.dim)) {
    const bool any_order = !by_channel && like.is_non_overlapping_and_dense();
    if (!any_order && !(is_channels_last(like) && how.dim == 1)) like_ = like.contiguous();
    task_ = {how.act,
             static_cast<float>(how.alpha),
             static_cast<float>(how.gain),
             static_cast<float>(how.clamp),
             /*outer=*/1,
             /*channels=*/1,
             /*inner=*/like.numel()};
    if (by_channel && channels_ > 1) {
      task_.channels = channels_;
      task_.inner = 1;
      if (like_.is_contiguous()) {
        for (int64_t d = how.dim + 1; d < like.dim(); ++d) task_.inner *= like.size(d);
      }
      task_.outer = like.numel() / (task_.channels * task_.inner);
    }
    units_ = bias_act_units(task_);
    if (!b.defined()) return;
    bias_ = b.contiguous();
    if (task_.inner == 1) bias_ = bias_.repeat({units_.columns / task_.channels});
  }

  const BiasActTask& task() const { return task_; }
  const float* bias() const { return bias_.defined() ? bias_.const_data_ptr<float>() : nullptr; }
  Tensor result() const { return at::empty_like(like_); }

  // Returns t with its numbers in the order of the call.
  Tensor ordered(const Tensor& t) const {
    if (!t.defined() || t.strides() == like_.strides()) return t;
    return at::empty_like(like_).copy_(t);
  }

  Tensor sums() const { return at::empty({units_.count, units_.columns}, like_.options()); }

  // Adds the sums of units up in their order, which no number of threads changes.
  Tensor by_channel(const Tensor& sums) const {
    std::vector<double> totals(channels_);
    const auto* from = sums.const_data_ptr<float>();
    const int64_t in_channel = task_.inner > 1 ? units_.count / (task_.outer * task_.channels) : 1;
    for (int64_t i = 0; i < sums.numel(); ++i) totals[i / in_channel % channels_] += from[i];
    return at::tensor(totals, at::kDouble).to(at::kFloat);
  }

  // Calls body(first, last) for all units, shared out among threads.
  template <class Body>
  void run(const Body& body) const {
    constexpr int64_t kGrain = 32768;  // numbers that a thread is worth
    const int64_t each = task_.inner > 1 ? std::min(task_.inner, units_.numbers) : units_.numbers;
    parallel_for(0, units_.count, std::max<int64_t>(1, kGrain / each), body);
  }

 private:
  Tensor like_, bias_;
  int64_t channels_;
  BiasActTask task_{};
  BiasActUnits units_{};
};

const float* data(const Tensor& t) { return t.defined() ? t.const_data_ptr<float>() : nullptr; }

}  // namespace

Tensor cpu_bias_act(const Tensor& x, const Tensor& b, const BiasActNumbers& how) {
  if (!has_kernel(x)) return kComposedKernels.bias_act(x, b, how);
  const Call call(x, b, how, b.defined());
  const Tensor in = call.ordered(x);
  Tensor y = call.result();
  auto* to = y.mutable_data_ptr<float>();
  call.run([&](int64_t first, int64_t last) {
    cpu_kernels().bias_act.forward(call.task(), data(in), call.bias(), to, first, last);
  });
  return y;
}

BiasActGradients cpu_bias_act_gradient(const Tensor& dy,
                                       const Tensor& from,
                                       const Tensor& b,
                                       const BiasActNumbers& how,
                                       bool sum_to_bias) {
  if (!has_kernel(dy)) return kComposedKernels.bias_act_gradient(dy, from, b, how, sum_to_bias);
  const Call call(from.defined() ? from : dy, b, how, b.defined() || sum_to_bias);
  const Tensor in = call.ordered(dy), saved = call.ordered(from);
  const bool equal = !from.defined() && how.gain == 1;
  if (equal && !sum_to_bias) return {dy, {}};
  Tensor dx = equal ? dy : call.result();
  const Tensor sums = sum_to_bias ? call.sums() : Tensor();
  auto* to = equal ? nullptr : dx.mutable_data_ptr<float>();
  auto* sums_to = sum_to_bias ? sums.mutable_data_ptr<float>() : nullptr;
  call.run([&](int64_t first, int64_t last) {
    cpu_kernels().bias_act.gradient(
        call.task(), data(in), data(saved), call.bias(), to, sums_to, first, last);
  });
  return {dx, sum_to_bias ? call.by_channel(sums) : Tensor()};
}

Tensor cpu_bias_act_double_backward(const Tensor& v,
                                    const Tensor& dy,
                                    const Tensor& from,
                                    const Tensor& b,
                                    const BiasActNumbers& how) {
  if (!has_kernel(v)) return kComposedKernels.bias_act_double_backward(v, dy, from, b, how);
  const Call call(from, b, how, b.defined());
  const Tensor along = call.ordered(v), in = call.ordered(dy), saved = call.ordered(from);
  Tensor result = call.result();
  auto* to = result.mutable_data_ptr<float>();
  call.run([&](int64_t first, int64_t last) {
    cpu_kernels().bias_act.double_backward(
        call.task(), data(along), data(in), data(saved), call.bias(), to, first, last);
  });
  return result;
}

}  // namespace gantrain
