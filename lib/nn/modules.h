// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/forward_precision.h"

namespace gantrain {

// Makes a module and registers it as the child `name` of `parent`.
template <class Child, class... Args>
std::shared_ptr<Child> add_child(torch::nn::Module& parent,
                                 const std::string& name,
                                 Args&&... args) {
  return parent.register_module(name, std::make_shared<Child>(std::forward<Args>(args)...));
}

// A child that has only children, for names such as "16x16.Conv0.weight".
struct ModuleGroup final : torch::nn::Module {};

// A child that holds one weight, for names such as "Noise.weight".
struct Weight final : torch::nn::Module {
  explicit Weight(at::IntArrayRef shape) : weight(register_parameter("weight", at::zeros(shape))) {}
  at::Tensor weight;
};

// What the function computes inside the block `name` (BlockScope).
template <class Function>
auto in_block(std::string_view name, const Function& compute) {
  const BlockScope named(name);
  return compute();
}

}  // namespace gantrain
