// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <limits>
#include <random>

#include "core/torch.h"
#include "ops/device_kernels.h"
#include "ops/gpu/table_cuda.h"
#include "ops/kernels.h"
#include "support/gradient_checks.h"

// Random cases for the kernels, and the comparison of an operator's derivatives with those of the
// composed operators in float64.
namespace gantrain {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) { torch::manual_seed(seed); }

  int64_t up_to(int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(random_); }
  bool coin() { return up_to(1) == 1; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[up_to(static_cast<int64_t>(values.size()) - 1)];
  }

 private:
  std::mt19937_64 random_;
};

// The same numbers in another place: contiguous, channels last, either of them off a 16-byte
// address, with gaps, or as an expanded sample.
inline at::Tensor random_strides(Dice& dice, const at::Tensor& x) {
  const auto shifted = [](const at::Tensor& dense) {
    at::Tensor room = at::zeros({dense.numel() + 3}, dense.options());
    return room.narrow(0, 1, dense.numel())
        .as_strided(dense.sizes(), dense.strides(), 1)
        .copy_(dense);
  };
  const at::Tensor last = x.contiguous(at::MemoryFormat::ChannelsLast);
  switch (dice.up_to(7)) {
    case 0:
    case 1:
      return x.contiguous();
    case 2:
    case 3:
      return last;
    case 4:
      return shifted(x.contiguous());
    case 5:
      return shifted(last);
    case 6:
      return at::stack({x, x}, -1).select(-1, 1);
    default:
      return x.narrow(0, 0, 1).expand_as(x);
  }
}

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline at::Tensor in_float64(const at::Tensor& t) { return t.defined() ? t.to(at::kDouble) : t; }

inline double epsilon_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return 0x1p-53;
    case at::kHalf:
      return 0x1p-11;
    case at::kBFloat16:
      return 0x1p-8;
    default:
      return 0x1p-24;
  }
}

// What is left of a number that was stored in that type.
inline double as_stored(double number, at::ScalarType type) {
  return at::scalar_tensor(number, at::kDouble).to(type).to(at::kDouble).item<double>();
}

// While this object lives, CPU tensors are computed with by the CUDA library's kernels.
class WithCudaKernels {
 public:
  WithCudaKernels() { set_device_kernels(at::kCPU, *gantrain_cuda_kernels()); }
  ~WithCudaKernels() { set_device_kernels(at::kCPU, before_); }
  WithCudaKernels(const WithCudaKernels&) = delete;
  WithCudaKernels& operator=(const WithCudaKernels&) = delete;

 private:
  const DeviceKernels& before_ = device_kernels(at::kCPU);
};

// The largest difference of two tensors as a share of the largest number of the second.
inline double share_of_error(const at::Tensor& found, const at::Tensor& reference) {
  if (reference.numel() == 0) return 0;
  const at::Tensor wide = reference.to(at::kDouble);
  const double scale = std::max(wide.abs().max().item<double>(), 1e-30);
  return (found.to(at::kDouble) - wide).abs().max().item<double>() / scale;
}

struct Differentiated {
  at::Tensor y;
  Tensors first;       // by the inputs, with no graph of their own
  Tensors with_graph;  // the same
  Tensors second;      // of sum(along * first), by the inputs and v
};

// `v` and `along` are cast to the types of what they are multiplied with.
inline Differentiated differentiate(const TensorFunction& op,
                                    const Tensors& inputs,
                                    const at::Tensor& v,
                                    const Tensors& along) {
  Differentiated d;
  Tensors leaves;
  for (const at::Tensor& x : inputs) leaves.push_back(x.detach().requires_grad_(true));
  const at::Tensor y = op(leaves);
  d.y = y.detach();
  Tensors all = leaves;
  all.push_back(v.to(y.scalar_type()).detach().requires_grad_(true));
  d.first = torch::autograd::grad({y}, leaves, {all.back()}, /*retain_graph=*/true);
  d.with_graph = torch::autograd::grad({y}, leaves, {all.back()}, true, /*create_graph=*/true);
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (size_t i = 0; i < leaves.size(); ++i)
    sum = sum + (d.with_graph[i].to(at::kDouble) * along[i].to(at::kDouble)).sum();
  d.second = torch::autograd::grad({sum}, all, {}, false, false, /*allow_unused=*/true);
  for (size_t i = 0; i < all.size(); ++i)
    if (!d.second[i].defined()) d.second[i] = at::zeros_like(all[i]);
  return d;
}

// The largest share_of_error() of the result and of its first derivatives, and of its second ones
// unless they are to be left out, against composed operators on the same numbers in float64.
inline double derivatives_error(const TensorFunction& op,
                                const Tensors& inputs,
                                bool with_second = true) {
  Tensors wide, along;
  for (const at::Tensor& x : inputs) {
    wide.push_back(x.detach().to(at::kDouble));
    along.push_back(at::randn(x.sizes()).to(x.scalar_type()));
  }
  const at::Tensor v = at::randn(op(inputs).sizes()).to(inputs[0].scalar_type());
  const Differentiated found = differentiate(op, inputs, v, along);
  const WithKernels reference(KernelSet::kRef);
  const Differentiated expected = differentiate(op, wide, v, along);
  double worst = share_of_error(found.y, expected.y);
  for (size_t i = 0; i < found.second.size(); ++i) {
    if (i < found.first.size()) {
      worst = std::max(worst, share_of_error(found.first[i], expected.first[i]));
      worst = std::max(worst, share_of_error(found.with_graph[i], expected.first[i]));
    }
    if (with_second) worst = std::max(worst, share_of_error(found.second[i], expected.second[i]));
  }
  return worst;
}

}  // namespace gantrain
