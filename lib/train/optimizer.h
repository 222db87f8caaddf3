// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "core/safetensors.h"
#include "gan/options.h"
#include "train/gradient_guard.h"

namespace gantrain {

// Moves parameters along their gradients. A parameter without gradient counts as having zeros.
// Rates and memories are those of the images seen (config/scheduled.h).
class Optimizer {
 public:
  // `parameters` by name, in registration order; `step_share` as in Player.
  static std::unique_ptr<Optimizer> create(const PlayerOptions& options,
                                           NamedTensors parameters,
                                           double step_share = 1);
  virtual ~Optimizer() = default;

  // Leaves everything as it is where the verdict is that gradients are not finite. Without a
  // verdict the step is made.
  void step(const GradientVerdict& verdict = {});
  // From now on only these of its parameters move; the others keep their place and their moments.
  void restrict_to(const NamedTensors& active);
  // Factor of the learning rate from now on: a stage's.
  void scale_rate(double factor) { rate_ = factor; }
  // From now on hyperparameters are those of an iteration before which so many images were seen.
  void move_to(int64_t images_seen) { images_seen_ = images_seen; }
  // As it was made: moments and step counts are zero.
  void reset();
  // Sets every gradient to undefined (Optimizer::zero_grad of LibTorch throws on bucket views).
  void clear_gradients();

  // What a state file must hold, as "exp_avg/main.0.weight": the tensors themselves.
  virtual NamedTensors state() const = 0;

 protected:
  explicit Optimizer(NamedTensors parameters);
  // `gradients` and `parameters` of those that move. `found`: defined where the verdict is still on
  // the device and looks_at_verdicts().
  virtual void update(std::vector<at::Tensor>& parameters,
                      std::vector<at::Tensor>& gradients,
                      const at::Tensor& found) = 0;
  virtual bool looks_at_verdicts() const { return false; }
  // Of one tensor for each parameter, those whose parameters move.
  std::vector<at::Tensor> moving(const std::vector<at::Tensor>& all) const;
  // One zero tensor for each parameter.
  std::vector<at::Tensor> zeros() const;
  void append(NamedTensors& out, const char* name, const std::vector<at::Tensor>& tensors) const;
  double rate(const Scheduled& lr) const { return rate_ * lr.at(images_seen_); }

  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;
  int64_t images_seen_ = 0;

 private:
  double rate_ = 1;
  std::vector<bool> moves_;
};

}  // namespace gantrain
