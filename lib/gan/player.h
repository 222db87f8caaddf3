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
  std::vector<std::string> parts = {
      ""};  // children that recipes call by themselves; "" = the whole
  // Of a network that grows: whether a parameter takes part in the present stage. The others are
  // frozen, and cost nothing. Null: all do. Read again by rebuild_syncs() (train/players.h).
  std::function<bool(const std::string& parameter)> active = nullptr;
  GradientSync* sync = nullptr;  // set by the trainer while this player steps

  // Told by handles: `part` was called and gave `output`. Arms wrapper mode.
  void called(const std::string& part, const at::Tensor& output) const;
  // "G", "G.synthesis": what is computed meanwhile is that part's.
  BlockScope as_block(const std::string& part) const;
};

// How recipes call a network: like a function, and seen by the trainer, whatever the DDP mode.
// LibTorch's C++ modules have no forward hooks, so a call that goes around its handle is not seen;
// in wrapper mode it is an error at backward. What is called returns a tensor, or a pair, tuple or
// vector of tensors.
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
  // What a call in an earlier phase of this iteration gave, with its graph: as if called now.
  template <class Output>
  Output again(Output output) const {
    return seen(std::move(output));
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
