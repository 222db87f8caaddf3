// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "core/parallel.h"

// What the sources of operators share.
namespace gantrain {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Holds a plain struct in the saved data of a torch::autograd::Function, from its forward to its
// backward pass. hold() saves a copy under a name; held() returns it.
template <class T>
struct Held final : torch::CustomClassHolder {
  explicit Held(const T& v) : value(v) {}
  T value;
};

template <class T>
void hold(AutogradContext* context, const std::string& name, const T& value) {
  context->saved_data[name] = at::IValue::make_capsule(c10::make_intrusive<Held<T>>(value));
}

template <class T>
const T& held(AutogradContext* context, const std::string& name) {
  return static_cast<const Held<T>&>(*context->saved_data.at(name).toCapsule()).value;
}

// Saves tensors for the backward pass, in which gradients that nobody computed are undefined, not
// 0.
inline void save(AutogradContext* context, variable_list tensors) {
  context->save_for_backward(std::move(tensors));
  context->set_materialize_grads(false);
}

// A tensor that may be undefined as an argument of a torch::autograd::Function.
inline std::optional<at::Tensor> present(const at::Tensor& t) {
  return t.defined() ? std::optional<at::Tensor>(t) : std::nullopt;
}

// The numbers of a float32 tensor on the CPU; null where it is undefined.
inline const float* floats(const at::Tensor& t) {
  return t.defined() ? t.const_data_ptr<float>() : nullptr;
}

// Calls kernel(begin, end) on parts of [0, count), each of `numbers_each` numbers, in as many
// threads as the work is worth.
template <class Kernel>
void shared_out(int64_t count, int64_t numbers_each, const Kernel& kernel) {
  constexpr int64_t kGrain = 16384;  // numbers that a thread is worth
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, numbers_each));
  parallel_for(0, count, grain, kernel);
}

}  // namespace gantrain
