// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "core/safetensors.h"
#include "gan/options.h"

namespace gantrain {

// Moves parameters along their gradients. A parameter without gradient counts as having zeros.
class Optimizer {
 public:
  // `parameters` by name, in registration order.
  static std::unique_ptr<Optimizer> create(const PlayerOptions& options, NamedTensors parameters);
  virtual ~Optimizer() = default;

  void step();
  // Sets every gradient to undefined (Optimizer::zero_grad of LibTorch throws on bucket views).
  void clear_gradients();

  // What a state file must hold, as "exp_avg/main.0.weight": the tensors themselves.
  virtual NamedTensors state() const = 0;

 protected:
  explicit Optimizer(NamedTensors parameters);
  virtual void update(std::vector<at::Tensor>& gradients) = 0;
  // One zero tensor for each parameter.
  std::vector<at::Tensor> zeros() const;
  void append(NamedTensors& out, const char* name, const std::vector<at::Tensor>& tensors) const;

  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;
};

}  // namespace gantrain
