// SPDX-License-Identifier: Apache-2.0
#include "train/optimizer.h"

#include <torch/torch.h>

#include <algorithm>

#include "ops/adam.h"

namespace gantrain {

Optimizer::Optimizer(NamedTensors parameters) {
  for (auto& [name, tensor] : parameters) {
    names_.push_back(name);
    parameters_.push_back(tensor);
  }
  moves_.assign(parameters_.size(), true);
}

void Optimizer::restrict_to(const NamedTensors& active) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    moves_[i] = std::any_of(active.begin(), active.end(), [&](const auto& item) {
      return item.second.is_same(parameters_[i]);
    });
  }
}

std::vector<at::Tensor> Optimizer::moving(const std::vector<at::Tensor>& all) const {
  std::vector<at::Tensor> some;
  for (size_t i = 0; i < all.size(); ++i) {
    if (moves_[i]) some.push_back(all[i]);
  }
  return some;
}

void Optimizer::step() {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> parameters = moving(parameters_);
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& p : parameters) {
    gradients.push_back(p.grad().defined() ? p.grad() : torch::zeros_like(p));
  }
  if (!parameters.empty()) update(parameters, gradients);
}

void Optimizer::reset() {
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : state()) tensor.zero_();
}

void Optimizer::clear_gradients() {
  for (at::Tensor& p : parameters_) p.mutable_grad() = at::Tensor();
}

std::vector<at::Tensor> Optimizer::zeros() const {
  std::vector<at::Tensor> all;
  for (const at::Tensor& p : parameters_) all.push_back(torch::zeros_like(p.detach()));
  return all;
}

void Optimizer::append(NamedTensors& out,
                       const char* name,
                       const std::vector<at::Tensor>& tensors) const {
  for (size_t i = 0; i < tensors.size(); ++i)
    out.emplace_back(std::string(name) + "/" + names_[i], tensors[i]);
}

namespace {

class Adam final : public Optimizer {
 public:
  Adam(const AdamOptions& o, NamedTensors parameters) : Optimizer(std::move(parameters)), o_(o) {
    first_ = zeros();
    second_ = zeros();
    for (const at::Tensor& p : parameters_) {
      steps_.push_back(torch::zeros({}, at::TensorOptions().dtype(at::kFloat).device(p.device())));
    }
  }

  NamedTensors state() const override {
    NamedTensors all;
    append(all, "exp_avg", first_);
    append(all, "exp_avg_sq", second_);
    append(all, "step", steps_);
    return all;
  }

 protected:
  void update(std::vector<at::Tensor>& parameters, std::vector<at::Tensor>& gradients) override {
    std::vector<at::Tensor> first = moving(first_), second = moving(second_),
                            steps = moving(steps_);
    adam_step_(
        parameters, gradients, first, second, steps, {rate_ * o_.lr, o_.beta1, o_.beta2, o_.eps});
  }

 private:
  AdamOptions o_;
  std::vector<at::Tensor> first_, second_, steps_;
};

class Sgd final : public Optimizer {
 public:
  Sgd(const SgdOptions& o, NamedTensors parameters) : Optimizer(std::move(parameters)), o_(o) {
    if (o_.momentum > 0) momentum_ = zeros();
  }

  NamedTensors state() const override {
    NamedTensors all;
    append(all, "momentum", momentum_);
    return all;
  }

 protected:
  // v <- m v + g; p <- p - lr v (Sutskever et al. 2013, as torch has it).
  void update(std::vector<at::Tensor>& parameters, std::vector<at::Tensor>& gradients) override {
    if (o_.momentum > 0) {
      std::vector<at::Tensor> momentum = moving(momentum_);
      at::_foreach_mul_(momentum, o_.momentum);
      at::_foreach_add_(momentum, gradients);
      at::_foreach_add_(parameters, momentum, -rate_ * o_.lr);
    } else {
      at::_foreach_add_(parameters, gradients, -rate_ * o_.lr);
    }
  }

 private:
  SgdOptions o_;
  std::vector<at::Tensor> momentum_;
};

class Rmsprop final : public Optimizer {
 public:
  Rmsprop(const RmspropOptions& o, NamedTensors parameters)
      : Optimizer(std::move(parameters)), o_(o) {
    square_ = zeros();
  }

  NamedTensors state() const override {
    NamedTensors all;
    append(all, "square_avg", square_);
    return all;
  }

 protected:
  // s <- a s + (1 - a) g^2; p <- p - lr g / (sqrt(s) + eps) (Hinton 2012, as torch has it).
  void update(std::vector<at::Tensor>& parameters, std::vector<at::Tensor>& gradients) override {
    std::vector<at::Tensor> square = moving(square_);
    at::_foreach_mul_(square, o_.alpha);
    at::_foreach_addcmul_(square, gradients, gradients, 1 - o_.alpha);
    std::vector<at::Tensor> root = at::_foreach_sqrt(square);
    at::_foreach_add_(root, o_.eps);
    at::_foreach_addcdiv_(parameters, gradients, root, -rate_ * o_.lr);
  }

 private:
  RmspropOptions o_;
  std::vector<at::Tensor> square_;
};

}  // namespace

std::unique_ptr<Optimizer> Optimizer::create(const PlayerOptions& o, NamedTensors parameters) {
  switch (o.optimizer) {
    case OptimizerKind::kAdam:
      return std::make_unique<Adam>(o.adam, std::move(parameters));
    case OptimizerKind::kSgd:
      return std::make_unique<Sgd>(o.sgd, std::move(parameters));
    case OptimizerKind::kRmsprop:
      return std::make_unique<Rmsprop>(o.rmsprop, std::move(parameters));
  }
  throw std::logic_error("no such optimizer");
}

}  // namespace gantrain
