// SPDX-License-Identifier: Apache-2.0
#include "train/optimizer.h"

#include <catch2/catch.hpp>

#include "tensor_checks.h"

using namespace gantrain;

namespace {

// A few steps on f(x) = sum(x^4) by ours and by torch's optimizer.
template <class Make>
double distance_to_torch(const PlayerOptions& options, Make&& make) {
  at::Tensor a = torch::linspace(-1, 2, 7, at::kDouble).requires_grad_(true),
             b = a.detach().clone().requires_grad_(true);
  const auto mine = Optimizer::create(options, {{"x", a}});
  auto theirs = make(std::vector<at::Tensor>{b});
  for (int i = 0; i < 5; ++i) {
    mine->clear_gradients();
    a.pow(4).sum().backward();
    mine->step();
    theirs.zero_grad();
    b.pow(4).sum().backward();
    theirs.step();
  }
  return scaled_error(a.detach(), b.detach());
}

}  // namespace

TEST_CASE("EachOptimizerIsTorchsOwn") {
  PlayerOptions o;
  o.adam = {0.05, 0.5, 0.99, 1e-8};
  CHECK(
      distance_to_torch(o, [](auto p) {
        return torch::optim::Adam(p, torch::optim::AdamOptions(0.05).betas({0.5, 0.99}).eps(1e-8));
      }) < 1e-12);
  o.optimizer = OptimizerKind::kSgd;
  o.sgd = {0.01, 0.9};
  CHECK(distance_to_torch(o, [](auto p) {
          return torch::optim::SGD(p, torch::optim::SGDOptions(0.01).momentum(0.9));
        }) < 1e-12);
  o.sgd = {0.01, 0};
  CHECK(distance_to_torch(o, [](auto p) {
          return torch::optim::SGD(p, torch::optim::SGDOptions(0.01));
        }) < 1e-12);
  o.optimizer = OptimizerKind::kRmsprop;
  o.rmsprop = {0.01, 0.9, 1e-8};
  CHECK(distance_to_torch(o, [](auto p) {
          return torch::optim::RMSprop(p, torch::optim::RMSpropOptions(0.01).alpha(0.9).eps(1e-8));
        }) < 1e-12);
}

TEST_CASE("AParameterWithoutGradientCountsAsHavingZeros") {
  at::Tensor x = torch::ones({3}, torch::requires_grad());
  PlayerOptions o;
  const auto optimizer = Optimizer::create(o, {{"x", x}});
  optimizer->step();
  CHECK(torch::equal(x, torch::ones({3})));
  CHECK(optimizer->state()[2].second.item<float>() == 1);  // the step counts
}

TEST_CASE("TheStateIsNamedAndAlive") {
  at::Tensor x = torch::ones({3}, torch::requires_grad());
  PlayerOptions o;
  const auto optimizer = Optimizer::create(o, {{"x", x}});
  const NamedTensors state = optimizer->state();
  REQUIRE(state.size() == 3);
  CHECK(state[0].first == "exp_avg/x");
  x.sum().backward();
  optimizer->step();
  CHECK(state[0].second.abs().sum().item<float>() > 0);
  optimizer->clear_gradients();
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("ParametersThatAreNotActiveStayWhereTheyAre") {
  for (const OptimizerKind kind :
       {OptimizerKind::kAdam, OptimizerKind::kSgd, OptimizerKind::kRmsprop}) {
    at::Tensor x = torch::ones({3}, torch::requires_grad()),
               y = torch::ones({3}, torch::requires_grad());
    PlayerOptions o;
    o.optimizer = kind;
    o.sgd.momentum = 0.9;
    const auto optimizer = Optimizer::create(o, {{"x", x}, {"y", y}});
    const auto step = [&] {
      optimizer->clear_gradients();
      (x + y).square().sum().backward();
      optimizer->step();
    };
    step();
    NamedTensors before;
    for (const auto& [name, tensor] : optimizer->state()) before.emplace_back(name, tensor.clone());
    const at::Tensor still = y.detach().clone(), moves = x.detach().clone();
    optimizer->restrict_to({{"x", x}});
    step();
    CHECK(torch::equal(y, still));
    CHECK(!torch::equal(x, moves));
    const NamedTensors after = optimizer->state();
    for (size_t i = 0; i < before.size(); ++i) {
      CAPTURE(before[i].first);
      const bool of_y = before[i].first.back() == 'y';
      CHECK(torch::equal(after[i].second, before[i].second) == of_y);
    }
    optimizer->restrict_to({});
    step();  // of nothing
    CHECK(torch::equal(y, still));
  }
}
