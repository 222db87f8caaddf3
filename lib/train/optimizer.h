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
  // From now on only these of its parameters move; the others keep their place and their moments.
  void restrict_to(const NamedTensors& active);
  // Factor of the learning rate from now on: a stage's.
  void scale_rate(double factor) { rate_ = factor; }
  // As it was made: moments and step counts are zero.
  void reset();
  // Sets every gradient to undefined (Optimizer::zero_grad of LibTorch throws on bucket views).
  void clear_gradients();

  // What a state file must hold, as "exp_avg/main.0.weight": the tensors themselves.
  virtual NamedTensors state() const = 0;

 protected:
  explicit Optimizer(NamedTensors parameters);
  // `gradients` and `parameters` of those that move.
  virtual void update(std::vector<at::Tensor>& parameters, std::vector<at::Tensor>& gradients) = 0;
  // Of one tensor for each parameter, those whose parameters move.
  std::vector<at::Tensor> moving(const std::vector<at::Tensor>& all) const;
  // One zero tensor for each parameter.
  std::vector<at::Tensor> zeros() const;
  void append(NamedTensors& out, const char* name, const std::vector<at::Tensor>& tensors) const;

  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;
  double rate_ = 1;

 private:
  std::vector<bool> moves_;
};

}  // namespace gantrain
