// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/forward_precision.h"
#include "gan/options.h"

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

}  // namespace gantrain
