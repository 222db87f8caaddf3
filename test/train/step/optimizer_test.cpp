// SPDX-License-Identifier: Apache-2.0
#include <torch/optim/adam.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "support/catch.h"
#include "support/tensor_checks.h"
#include "train/step/players.h"

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

TEST_CASE("WhatALossCannotReachTakesNoPartInItsStep") {
  at::Tensor x = torch::ones({3}, torch::requires_grad());
  at::Tensor y = torch::ones({3}, torch::requires_grad());
  PlayerOptions o;
  const auto optimizer = Optimizer::create(o, {{"x", x}, {"y", y}});
  (x.sum() + y.sum()).backward();
  optimizer->step();
  const at::Tensor before = y.detach().clone();
  optimizer->step({}, {"y"});
  CHECK(torch::equal(y, before));
  const NamedTensors state = optimizer->state();
  REQUIRE(state[5].first == "step/y");
  CHECK(state[4].second.item<float>() == 2);
  CHECK(state[5].second.item<float>() == 1);
  optimizer->step();  // the next step has it again
  CHECK_FALSE(torch::equal(y, before));
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

namespace {

PlayerOptions options_of(OptimizerKind kind) {
  PlayerOptions o;
  o.optimizer = kind;
  o.sgd.momentum = 0.9;
  return o;
}

constexpr OptimizerKind kKinds[] = {
    OptimizerKind::kAdam, OptimizerKind::kSgd, OptimizerKind::kRmsprop};

// A verdict that is known on the host, or on the device alone.
GradientVerdict verdict(bool finite, bool known) {
  GradientVerdict v;
  v.found = torch::full({1}, finite ? 0.0F : 1.0F);
  if (known) v.finite = finite;
  return v;
}

// Parameter and state after steps of which the second has a gradient that is not finite.
std::vector<at::Tensor> after_a_bad_step(OptimizerKind kind, bool known) {
  at::Tensor x = torch::linspace(1, 2, 3).requires_grad_(true);
  const auto optimizer = Optimizer::create(options_of(kind), {{"x", x}});
  std::vector<at::Tensor> seen;
  for (const bool finite : {true, false, true}) {
    optimizer->clear_gradients();
    x.pow(3).sum().backward();
    if (!finite) x.grad()[1] = NAN;
    optimizer->step(verdict(finite, known));
    seen.push_back(x.detach().clone());
    for (const auto& [name, tensor] : optimizer->state()) seen.push_back(tensor.clone());
  }
  return seen;
}

}  // namespace

TEST_CASE("AStepWithoutFiniteGradientsIsLeftOutWhereverTheVerdictLies") {
  for (const OptimizerKind kind : kKinds) {
    CAPTURE(static_cast<int>(kind));
    const std::vector<at::Tensor> host = after_a_bad_step(kind, true);
    const std::vector<at::Tensor> device = after_a_bad_step(kind, false);
    const size_t each = host.size() / 3;
    for (size_t i = 0; i < each; ++i) {
      CHECK(torch::equal(host[each + i], host[i]));            // the bad step left all as it was
      CHECK_FALSE(torch::equal(host[2 * each + i], host[i]));  // the next one did not
    }
    for (size_t i = 0; i < host.size(); ++i) CHECK(torch::equal(device[i], host[i]));
  }
}

TEST_CASE("StepsAlongARampAreStepsWithItsNumbers") {
  const Scheduled rate(0.1, 0.02, Kimg{100}, RampShape::kCosine),
      first(0.5, 0.9, Kimg{80}, RampShape::kLinear), second(0.9, 0.99, Kimg{50}, RampShape::kStep);
  for (const OptimizerKind kind : kKinds) {
    CAPTURE(static_cast<int>(kind));
    PlayerOptions ramp = options_of(kind);
    ramp.adam.lr = ramp.sgd.lr = ramp.rmsprop.lr = rate;
    ramp.adam.beta1 = first;
    ramp.adam.beta2 = second;
    at::Tensor x = torch::linspace(1, 2, 3).requires_grad_(true);
    const auto along = Optimizer::create(ramp, {{"x", x}});
    at::Tensor y = x.detach().clone().requires_grad_(true);
    NamedTensors moments;
    for (int64_t images = 0; images < 160; images += 20) {
      along->advance_to(images);
      along->clear_gradients();
      x.pow(2).sum().backward();
      along->step();
      // One step by an optimizer of constants that goes on with the moments of the one before it.
      PlayerOptions constant = options_of(kind);
      constant.adam.lr = constant.sgd.lr = constant.rmsprop.lr = rate.at(images);
      constant.adam.beta1 = first.at(images);
      constant.adam.beta2 = second.at(images);
      const auto single = Optimizer::create(constant, {{"y", y}});
      const NamedTensors state = single->state();
      for (size_t i = 0; i < moments.size(); ++i) {
        at::Tensor into = state[i].second;
        into.copy_(moments[i].second);
      }
      y.pow(2).sum().backward();
      single->step();
      single->clear_gradients();
      moments = single->state();
      CAPTURE(images);
      CHECK(torch::equal(x, y));
    }
  }
}

TEST_CASE("AStagesFactorAppliesToTheRampsRate") {
  PlayerOptions o = options_of(OptimizerKind::kSgd);
  o.sgd = {Scheduled(1, 3, Kimg{100}, RampShape::kLinear), 0};
  at::Tensor x = torch::zeros({1}).requires_grad_(true);
  const auto optimizer = Optimizer::create(o, {{"x", x}});
  optimizer->scale_rate(0.5);
  optimizer->advance_to(50);
  x.sum().backward();
  optimizer->step();
  CHECK(x.item<float>() == -1);  // 0.5 * 2
}

TEST_CASE("MomentsTellTheSizeOfGradients") {
  at::Tensor x = torch::zeros({3}, torch::requires_grad()),
             y = torch::zeros({4, 4}, torch::requires_grad());
  PlayerOptions o;
  o.adam.beta2 = 0.99;
  o.rmsprop.alpha = 0.5;
  for (const OptimizerKind kind :
       {OptimizerKind::kAdam, OptimizerKind::kRmsprop, OptimizerKind::kSgd}) {
    o.optimizer = kind;
    const auto optimizer = Optimizer::create(o, {{"x", x}, {"y", y}});
    for (int i = 0; i < 30; ++i) {
      optimizer->clear_gradients();
      (2 * x.sum() + 0.5 * y.sum()).backward();  // a norm of 4
      optimizer->step();
      // Also after a single step.
      if (kind == OptimizerKind::kAdam)
        CHECK(optimizer->gradient_size().item<double>() == Approx(4).epsilon(1e-4));
    }
    if (kind == OptimizerKind::kRmsprop)
      CHECK(optimizer->gradient_size().item<double>() == Approx(4).epsilon(1e-4));
    if (kind == OptimizerKind::kSgd) CHECK_FALSE(optimizer->gradient_size().defined());
  }
}
