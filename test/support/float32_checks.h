// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include "support/gradient_checks.h"
#include "support/tensor_checks.h"

namespace gantrain {

// f's derivative of the given order at the inputs, in their type: the gradient of sum(v * f) by
// the inputs and by v, then the gradient of its product with random numbers by all of them, and so
// on. Order 0 is f itself. Only what a higher order needs is computed with a graph. like(value)
// makes v and the random numbers.
inline Tensors derivatives(const TensorFunction& f,
                           const Tensors& inputs,
                           int order,
                           const std::function<at::Tensor(const at::Tensor& value)>& like) {
  Tensors leaves;
  for (const at::Tensor& x : inputs) leaves.push_back(x.detach().requires_grad_(true));
  Tensors values = {f(leaves)};
  Tensors factors = {like(values[0].detach()).requires_grad_(true)};
  Tensors all = leaves;
  all.push_back(factors[0]);
  for (int k = 1; k <= order; ++k) {
    at::Tensor sum = torch::zeros({}, inputs[0].options().dtype(at::kFloat));
    for (size_t i = 0; i < values.size(); ++i) sum = sum + (values[i] * factors[i]).sum();
    values = sum.requires_grad()
                 ? torch::autograd::grad({sum}, all, {}, {}, /*create_graph=*/k < order, true)
                 : Tensors(all.size());
    factors.clear();
    for (size_t i = 0; i < values.size(); ++i) {
      if (!values[i].defined()) values[i] = torch::zeros_like(all[i]);
      factors.push_back(like(values[i].detach()));
    }
  }
  return values;
}

inline at::Generator factors_generator() { return at::make_generator<at::CPUGeneratorImpl>(17); }

inline Tensors derivatives(const TensorFunction& f, const Tensors& inputs, int order) {
  return derivatives(f, inputs, order, [random = factors_generator()](const at::Tensor& t) {
    return torch::randn(t.sizes(), random, at::kDouble).to(t.scalar_type());
  });
}

// The largest scaled error of f and its derivatives up to `order` in float32, against the same in
// float64. inputs: float64 tensors, which are rounded to float32 first.
inline double float32_error(const TensorFunction& f, const Tensors& inputs, int order) {
  Tensors narrow, wide;
  for (const at::Tensor& x : inputs) {
    narrow.push_back(x.to(at::kFloat));
    wide.push_back(narrow.back().to(at::kDouble));
  }
  double worst = 0;
  for (int k = 0; k <= order; ++k) {
    const Tensors found = derivatives(f, narrow, k), expected = derivatives(f, wide, k);
    for (size_t i = 0; i < found.size(); ++i) {
      TORCH_CHECK(found[i].scalar_type() == at::kFloat, "not in float32");
      const double error = scaled_error(found[i].detach(), expected[i].detach());
      worst = std::isfinite(error) ? std::max(worst, error) : error;
    }
  }
  return worst;
}

// Whether f and its first and second derivatives at float32 inputs are bit for bit the same with
// one thread and with two.
inline bool threads_agree(const TensorFunction& f, const Tensors& inputs) {
  const int before = at::get_num_threads();
  bool equal = true;
  for (int k = 0; k <= 2; ++k) {
    at::set_num_threads(1);
    const Tensors one = derivatives(f, inputs, k);
    at::set_num_threads(2);
    const Tensors two = derivatives(f, inputs, k);
    for (size_t i = 0; i < one.size(); ++i) equal = equal && torch::equal(one[i], two[i]);
  }
  at::set_num_threads(before);
  return equal;
}

}  // namespace gantrain
