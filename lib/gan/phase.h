// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/forward_precision.h"
#include "core/tensors.h"
#include "gan/options.h"
#include "ops/draws/draws.h"

namespace gantrain {

class GradientSync;

// A network that is trained, with options of its own.
struct Player {
  std::string name;  // "G" or "D"; also names the section of the configuration
  std::shared_ptr<torch::nn::Module> network;
  PlayerOptions options;
  // Names of the network's children that recipes call one by one; "" stands for the whole network.
  std::vector<std::string> parts = {""};
  // The share of the optimizer's steps that the main loss makes. A network that is regularised at
  // every i-th iteration takes i + 1 steps in i iterations; the share is then i / (i + 1), and
  // Adam's learning rate and betas are corrected by it (Karras et al. 2020a, app. B).
  double step_share = 1;
  // Whether a parameter of a growing network takes part in the present stage. Other parameters are
  // frozen and cost nothing. Null: all take part. The training step asks again when a stage begins.
  std::function<bool(const std::string& parameter)> active = nullptr;
  // Averages this player's gradients over ranks. It is null except while the training step trains
  // the player.
  GradientSync* sync = nullptr;

  // Handles report here that `part` was called and returned `output`; the wrapper mode of DDP needs
  // this.
  void called(const std::string& part, const at::Tensor& output) const;
  // Returns a scope: while it lives, computations belong to the block "G" or "G.synthesis".
  BlockScope as_block(const std::string& part) const;
};

// The Player::step_share of a network that a penalty trains at every interval-th iteration.
inline double main_step_share(int64_t interval) {
  return static_cast<double>(interval) / static_cast<double>(interval + 1);
}

// Calls a network like a function, so that the training step sees the call in every DDP mode.
// Recipes call their networks only through handles, because LibTorch's C++ modules have no forward
// hooks: a call around the handle is not seen, and in wrapper mode it ends in an error at backward.
// A network returns a tensor, or a pair, tuple or vector of tensors.
template <class Net>
class Handle {
 public:
  Handle(Player& player, std::shared_ptr<Net> net, std::string part = "")
      : player_(&player), net_(std::move(net)), part_(std::move(part)) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    const BlockScope named = player_->as_block(part_);
    return seen(net_->forward(std::forward<Args>(args)...));
  }
  // Calls a member function other than forward: G.call(&Net::encode, x).
  template <class Method, class... Args>
  auto call(Method method, Args&&... args) const {
    const BlockScope named = player_->as_block(part_);
    return seen(std::invoke(method, *net_, std::forward<Args>(args)...));
  }
  Net& operator*() const { return *net_; }
  Net* operator->() const { return net_.get(); }

 private:
  template <class Output>
  Output seen(Output output) const {
    if constexpr (std::is_convertible_v<Output, at::Tensor>) {
      player_->called(part_, output);
    } else if constexpr (requires { output.begin(); }) {
      for (const at::Tensor& tensor : output) player_->called(part_, tensor);
    } else {
      std::apply([this](const auto&... tensors) { (player_->called(part_, tensors), ...); },
                 output);
    }
    return output;
  }

  Player* player_;
  std::shared_ptr<Net> net_;
  std::string part_;
};

// What a phase is for, in the names of its statistics: "Loss/G/loss" or "Loss/G/reg".
enum class Role { kMain, kPenalty };

// A phase runs at one iteration of `interval`, from iteration `first` on.
struct Cadence {
  int64_t interval = 1;
  int64_t first = 0;
  bool is_due(int64_t iteration) const { return iteration % interval == first; }
};

// What a phase has computed for the one that continues it (Phase::continues).
struct Carry {
  std::map<std::string, at::Tensor> tensors;  // with their graph
  RunningStatistics running;                  // of forward passes that the later phase accounts for
};

// One micro-batch as a phase sees it. All tensors lie on the networks' device.
struct PhaseInput : Batch {
  DrawKey key;             // of every draw; its phase is this phase's number
  Samples samples;         // which samples of the global batch these are
  Carry carried;           // of the phase that this one continues; empty: it computes all itself
  bool continued = false;  // whether the next phase takes what this one puts into `carried`
};

// Values by name, in the order in which they were made.
using Statistics = std::vector<std::pair<std::string, at::Tensor>>;

// The result of a micro-batch. Its tensors are still on the device; nothing has waited for them.
struct PhaseOutput {
  at::Tensor loss;             // [], the mean over the micro-batch, with its graph
  Statistics statistics = {};  // for stats.jsonl, by name: {"Loss/scores/real", [n]}
  Statistics sums = {};        // added up over the global batch for the AllReducedSum of that name
  Carry carried = {};          // used where PhaseInput::continued says so
  RunningStatistics running = {};  // how the forward passes move running statistics
};

// One loss, one backward, one reduction, one optimizer step.
struct Phase {
  std::string name;  // "D", "G", "Dreg"
  Player& player;    // the player that it trains
  // A function of the input's values, of the networks and of what the recipe keeps between
  // iterations: called twice it gives the same bits and leaves nothing behind.
  std::function<PhaseOutput(const PhaseInput&)> loss;
  Cadence cadence = {};
  Role role = Role::kMain;
  // Factor of the gradient, not of what is reported: the interval, for lazy regularisation.
  double gain = 1;
  // A promise: every active parameter of the player takes part in this loss in every call. Then
  // nothing searches for unused parameters, and a broken promise ends the run.
  bool all_parameters_used = false;
  // Names of the player's parameters that this loss cannot reach and that its step leaves as they
  // are, with their moments and step counts. Every other parameter without gradient counts as
  // having zeros.
  std::vector<std::string> unreached = {};
  // This loss and that of the phase before it are two losses of the same forward pass: where both
  // are due in an iteration, it gets what that one carried, and the graph of its player's network
  // is recorded there. Else, and with accumulation, which would keep the graphs of all
  // micro-batches, it gets nothing and computes the same bits itself.
  bool continues = false;

  bool is_due(int64_t iteration) const { return cadence.is_due(iteration); }
  // Calls the loss; running statistics are in the output and not in their buffers.
  PhaseOutput run(const PhaseInput& input) const;
};

// A sum over the global batch that outlives its iteration: running means, signs of scores. Phases
// return their shares (PhaseOutput::sums); they are added up over micro-batches and ranks, and
// handed back once an iteration, the same on every rank.
struct AllReducedSum {
  std::string name;
  // Called for each due phase that gave such a sum, in their order, with its sum over the global
  // batch.
  std::function<void(const at::Tensor& sum)> on_reduced;
  // What on_reduced moves. A sum that is not finite leaves these as they were.
  std::vector<at::Tensor> moves;
};

using PhaseLoss = std::function<PhaseOutput(const PhaseInput&)>;

// What the function computes, without its graph.
at::Tensor without_graph(const std::function<at::Tensor()>& compute);

// Makes the phases of two players that are trained in turn. Each iteration has one phase of D, "D";
// in every D.steps-th iteration G.steps phases of G follow it: "G", "G2", ... In the keys of draws
// D's phase has number 0, and G's phases count from 1. The phases promise that every active
// parameter takes part in the losses (Phase::all_parameters_used).
std::vector<Phase> alternating_phases(Player& D,
                                      const PhaseLoss& d_loss,
                                      Player& G,
                                      const PhaseLoss& g_loss);

// Draws what generated pictures are made of: latents, labels and the cuts of style mixing. Each
// sample of the global batch has its own draws, whatever rank or micro-batch it is in. Everything
// is drawn on the key's device, and nothing waits for it.
class Latents {
 public:
  // `class_counts` holds the number of real pictures of each class; empty: no classes.
  // `label_rows`: the labels of all real pictures where these are vectors, float32 [pictures, L].
  Latents(int64_t z_dim,
          const std::vector<int64_t>& class_counts,
          at::Device device,
          const at::Tensor& label_rows = {});

  // Draws z [N, z_dim] ~ N(0, 1) in the type of `in.real`. `which` = 1 draws the z of the second
  // style.
  at::Tensor z(const PhaseInput& in, int64_t which = 0) const;
  // Draws the labels of the pictures to make, as frequent as in the data: classes, int64 [N], or
  // the vectors of real pictures, float32 [N, L]; undefined without labels.
  at::Tensor labels(const PhaseInput& in) const;
  // Draws the first layer that takes the second style, one number for the whole batch: int64 [].
  // With `probability` it is 1 to layers - 1, otherwise `layers`: then nothing is mixed.
  at::Tensor mixing_cutoff(const PhaseInput& in, double probability, int64_t layers) const;

 private:
  int64_t z_dim_;
  int64_t pictures_ = 0;    // sum of class_counts
  at::Tensor first_above_;  // running sums of class_counts, int64 [classes]
  at::Tensor rows_;         // vectors of all real pictures
};

// Turns a hyperparameter of the configuration into a number that phases use on the device.
inline DeviceNumber on_device(const Scheduled& schedule, const at::TensorOptions& like) {
  if (schedule.is_constant()) return schedule.at(0);
  return {[schedule](int64_t images_seen) { return schedule.at(images_seen); }, like};
}

}  // namespace gantrain
