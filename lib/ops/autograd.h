// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <string>

namespace gantrain {

// Holds a plain struct in the saved data of a torch::autograd::Function, from its forward to its
// backward pass. hold() saves a copy under a name; held() returns it.
template <class T>
struct Held final : torch::CustomClassHolder {
  explicit Held(const T& v) : value(v) {}
  T value;
};

template <class T>
void hold(torch::autograd::AutogradContext* context, const std::string& name, const T& value) {
  context->saved_data[name] = at::IValue::make_capsule(c10::make_intrusive<Held<T>>(value));
}

template <class T>
const T& held(torch::autograd::AutogradContext* context, const std::string& name) {
  return static_cast<const Held<T>&>(*context->saved_data.at(name).toCapsule()).value;
}

}  // namespace gantrain
