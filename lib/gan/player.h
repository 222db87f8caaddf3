// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gan/options.h"

namespace gantrain {

class GradientSync;

// A network that is trained, with options of its own.
struct Player {
  std::string name;  // "G", "D": also its section of the configuration
  std::shared_ptr<torch::nn::Module> network;
  PlayerOptions options;
  std::vector<std::string> parts = {
      ""};                       // children that recipes call by themselves; "" = the whole
  GradientSync* sync = nullptr;  // set by the trainer while this player steps

  // Told by handles: `part` was called and gave `output`. Arms wrapper mode.
  void called(const std::string& part, const at::Tensor& output) const;
};

// How recipes call a network: like a function, and seen by the trainer, whatever the DDP mode.
// LibTorch's C++ modules have no forward hooks, so a call that goes around its handle is not seen.
template <class Net>
class Handle {
 public:
  Handle(Player& player, std::shared_ptr<Net> net, std::string part = "")
      : player_(&player), net_(std::move(net)), part_(std::move(part)) {}

  template <class... Args>
  at::Tensor operator()(Args&&... args) const {
    at::Tensor output = net_->forward(std::forward<Args>(args)...);
    player_->called(part_, output);
    return output;
  }
  Net& operator*() const { return *net_; }
  Net* operator->() const { return net_.get(); }

 private:
  Player* player_;
  std::shared_ptr<Net> net_;
  std::string part_;
};

}  // namespace gantrain
