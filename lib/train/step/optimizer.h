// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/safetensors.h"
#include "gan/options.h"
#include "train/options.h"
#include "train/step/gradient_guard.h"

namespace gantrain {

// Updates parameters by their gradients; a parameter without gradient counts as having zeros.
// Learning rates and betas follow the images seen (config/scheduled.h).
class Optimizer {
 public:
  // Makes the optimizer that `options` name. `parameters` are in registration order; `step_share`
  // is Player::step_share.
  static std::unique_ptr<Optimizer> create(const PlayerOptions& options,
                                           NamedTensors parameters,
                                           double step_share = 1);
  virtual ~Optimizer() = default;

  // Makes one step. Where the verdict says that a gradient is not finite, everything stays as it
  // is. Without a verdict the step is always made. The parameters named in `unreached` stay where
  // they are, as do their moments and step counts (Phase::unreached).
  void step(const GradientVerdict& verdict = {}, const std::vector<std::string>& unreached = {});
  // From now on updates only these of its parameters; all others keep their values and their
  // moments.
  void restrict_to(const NamedTensors& active);
  // Sets the factor of the learning rate, which a stage of growth chooses.
  void scale_rate(double factor) { rate_ = factor; }
  // Sets the hyperparameters for an iteration before which so many images were seen.
  virtual void advance_to(int64_t images_seen) { images_seen_ = images_seen; }
  // Whether a step can be recorded and replayed (train/step/phase_graphs.h): nothing that changes
  // from step to step is a number of the host.
  virtual bool replayable() const { return false; }
  // Sets moments and step counts to zero, as in a new optimizer.
  void reset();
  // Sets every gradient to undefined (Optimizer::zero_grad of LibTorch throws on bucket views).
  void clear_gradients();

  // Returns what a state file must hold, as "exp_avg/main.0.weight": the tensors themselves.
  virtual NamedTensors state() const = 0;

 protected:
  explicit Optimizer(NamedTensors parameters);
  // Makes the step. `parameters` and `gradients` are those of active parameters. `found` is
  // GradientVerdict::found where the verdict is known only on the device, else undefined: then the
  // step is made, or left out, there.
  virtual void update(std::vector<at::Tensor>& parameters,
                      std::vector<at::Tensor>& gradients,
                      const at::Tensor& found) = 0;
  // Picks from one tensor per parameter those whose parameters are active and reached.
  std::vector<at::Tensor> moving(const std::vector<at::Tensor>& all) const;
  // Returns one zero tensor for each parameter.
  std::vector<at::Tensor> zeros() const;
  void append(NamedTensors& out, const char* name, const std::vector<at::Tensor>& tensors) const;
  double rate(const Scheduled& lr) const { return rate_ * lr.at(images_seen_); }

  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;
  int64_t images_seen_ = 0;

 private:
  double rate_ = 1;
  std::vector<bool> active_;
  std::vector<bool> moves_;  // in the present step: what is active but for what is not reached
};

// Returns the weight of the old average after a step of `batch` images: .5^(batch / half-life). The
// half-life is at most `rampup` times the images seen before the step (Karras et al. 2018a, 2020b).
double ema_beta(const EmaOptions& options, int64_t images_seen, int64_t batch);

// Updates the parameters of `average` in place: average <- average + (source - average) * weight.
// Buffers are copied. Both modules have the same names. `weight` is 1 - ema_beta().
void update_ema(torch::nn::Module& average,
                const torch::nn::Module& source,
                const DeviceNumber& weight);

}  // namespace gantrain
