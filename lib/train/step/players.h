// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/tensor_files.h"
#include "distributed/gradient_sync.h"
#include "gan/options.h"
#include "gan/phase.h"
#include "gan/recipe.h"
#include "train/options.h"
#include "train/plan/plan.h"
#include "train/step/mixed_precision.h"

namespace gantrain {

// Updates parameters by their gradients; a parameter without gradient counts as having zeros.
// Learning rates and betas follow the images seen (config/value.h).
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
  // Whether a step can be recorded and replayed (PhaseGraphs): nothing that changes
  // from step to step is a number of the host.
  virtual bool replayable() const { return false; }
  // Sets moments and step counts to zero, as in a new optimizer.
  void reset();
  // Sets every gradient to undefined (Optimizer::zero_grad of LibTorch throws on bucket views).
  void clear_gradients();

  // The size of all gradients together, a root mean square over the last steps, as moments tell it:
  // float64 [] on the device. Undefined for an optimizer that keeps no squares.
  virtual at::Tensor gradient_size() const { return {}; }

  // What a state file must hold, as "exp_avg/main.0.weight": the tensors themselves.
  const NamedTensors& state() const { return state_; }

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
  // Returns one zero tensor for each parameter, or these tensors, and makes them a part of state().
  std::vector<at::Tensor> keep_zeros(const char* name);
  std::vector<at::Tensor> keep(const char* name, std::vector<at::Tensor> tensors);
  double rate(const Scheduled& lr) const { return rate_ * lr.at(images_seen_); }

  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;
  int64_t images_seen_ = 0;

 private:
  NamedTensors state_;
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

// What training keeps for a player beside its network. All of it is there from the start.
struct PlayerState {
  Player* player;
  BatchPlan plan;
  NamedTensors parameters;   // trainable ones, in registration order
  bool all_parameters_used;  // all its phases promise it (Phase::all_parameters_used)
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<GradientGuard> guard;
  NamedTensors active = {};                      // the parameters that the present stage trains
  std::shared_ptr<GradientSync> sync = nullptr;  // one for all players with --ddp-scope whole
};

// Lets all parameters require gradients; a phase leaves all players but one frozen.
void thaw(std::vector<PlayerState>& players);

// Makes the optimizers, guards and gradient reductions of all players and, with dist.sync_bn, batch
// norm over all ranks. Throws UserError(kUsage) where the recipe cannot do what `dist` asks for,
// and std::logic_error if a trainable parameter is in none of its player's parts or in two of them.
std::vector<PlayerState> make_players(Recipe& recipe,
                                      const BatchPlan& plan,
                                      const DistOptions& dist,
                                      const GuardSettings& guards,
                                      at::Device device,
                                      const std::shared_ptr<Group>& group);

// Begins a stage: asks every Player::active again. Inactive parameters get no gradient, no
// collective and no step. With --find-unused on, the reducers stay and search for unused
// parameters; otherwise all of them are destroyed and built again over the active parameters. All
// ranks call it together, between iterations.
void rebuild_syncs(std::vector<PlayerState>& players,
                   const DistOptions& dist,
                   const std::shared_ptr<Group>& group);

// Returns one line of the log for each stage: "G find-unused off, 1 bucket; D find-unused off, 1
// bucket".
std::string describe_syncs(const std::vector<PlayerState>& players, const DistOptions& dist);

// Tells at each tick whether players still learn. It looks at a few weights of each parameter, so
// that it costs nothing beside a tick, and waits for no device.
class Motion {
 public:
  // Remembers the weights as they are.
  explicit Motion(const std::vector<PlayerState>& players);

  // Returns for each player, as tensors [] on the device, how far its weights have moved since the
  // last call as a share of their size ("Weights/G/moved"), and the size of its gradients
  // ("Gradients/G/size") where its optimizer tells.
  Statistics since_last(const std::vector<PlayerState>& players);

 private:
  std::map<std::string, at::Tensor> before_;  // by player: [n]
};

}  // namespace gantrain
