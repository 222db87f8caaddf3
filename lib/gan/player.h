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
  std::string name;  // "G", "D": also its section of the configuration
  std::shared_ptr<torch::nn::Module> network;
  PlayerOptions options;
  // The children that recipes call by themselves. "" is the whole network.
  std::vector<std::string> parts = {""};
  // A network that is regularised at every i-th turn takes i + 1 steps in i turns. Adam's rate and
  // memory are then those of i / (i + 1) steps (Karras et al. 2020a, app. B); this is that share.
  double step_share = 1;
  // Of a network that grows: whether a parameter takes part in the present stage. The others are
  // frozen and cost nothing. Null: all do. The step asks again when a stage begins.
  std::function<bool(const std::string& parameter)> active = nullptr;
  // What makes this player's gradients the mean over ranks, while the player is being trained; else
  // null. Set by the step.
  GradientSync* sync = nullptr;

  // Handles say here that `part` was called and gave `output`, which wrapper mode needs to know.
  void called(const std::string& part, const at::Tensor& output) const;
  // While the scope lives, what is computed belongs to the block "G" or "G.synthesis".
  BlockScope as_block(const std::string& part) const;
};

// Recipes call a network through its handle, like a function, so that the trainer sees the call
// whatever the DDP mode is. LibTorch's C++ modules have no forward hooks: a call that goes around
// its handle is not seen, and in wrapper mode it is an error at backward. A network returns a
// tensor, or a pair, tuple or vector of tensors.
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
  // A member function that is not forward: G.call(&Net::encode, x).
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
