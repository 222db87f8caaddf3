// SPDX-License-Identifier: Apache-2.0
#include "train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "core/device_graphs.h"
#include "core/torch.h"
#include "ops/adam.h"

namespace gantrain {

Optimizer::Optimizer(NamedTensors parameters) {
  for (auto& [name, tensor] : parameters) {
    names_.push_back(name);
    parameters_.push_back(tensor);
  }
  active_.assign(parameters_.size(), true);
}

void Optimizer::restrict_to(const NamedTensors& active) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    active_[i] = std::any_of(active.begin(), active.end(), [&](const auto& item) {
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

void Optimizer::step(const GradientVerdict& verdict, const std::vector<std::string>& unreached) {
  if (!verdict.finite.value_or(true)) return;
  const torch::NoGradGuard no_grad;
  moves_ = active_;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (std::find(unreached.begin(), unreached.end(), names_[i]) != unreached.end())
      moves_[i] = false;
  }
  std::vector<at::Tensor> parameters = moving(parameters_);
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& p : parameters) {
    gradients.push_back(p.grad().defined() ? p.grad() : torch::zeros_like(p));
  }
  if (parameters.empty()) return;
  const bool unknown = verdict.found.defined() && !verdict.finite;
  if (!unknown || looks_at_verdicts()) {
    update(parameters, gradients, unknown ? verdict.found : at::Tensor());
    return;
  }
  // The verdict is still on the device: the step is made, and undone there if the verdict is bad.
  std::vector<at::Tensor> moved = parameters;
  for (const auto& [name, tensor] : state()) moved.push_back(tensor);
  std::vector<at::Tensor> before;
  for (const at::Tensor& tensor : moved) before.push_back(tensor.clone());
  update(parameters, gradients, {});
  const at::Tensor bad = verdict.found.reshape({}) > 0;
  for (size_t i = 0; i < moved.size(); ++i) moved[i].copy_(at::where(bad, before[i], moved[i]));
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
  Adam(const AdamOptions& o, double step_share, NamedTensors parameters)
      : Optimizer(std::move(parameters)), o_(o), step_share_(step_share) {
    first_ = zeros();
    second_ = zeros();
    if (!parameters_.empty() && records_graphs(parameters_.front().device().type()))
      lr_ = torch::full({},
                        rate(o_.lr) * step_share_,
                        parameters_.front().options().dtype(at::kFloat).requires_grad(false));
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
  void update(std::vector<at::Tensor>& parameters,
              std::vector<at::Tensor>& gradients,
              const at::Tensor& found) override {
    std::vector<at::Tensor> first = moving(first_), second = moving(second_),
                            steps = moving(steps_);
    AdamSettings now = {rate(o_.lr) * step_share_,
                        std::pow(o_.beta1.at(images_seen_), step_share_),
                        std::pow(o_.beta2.at(images_seen_), step_share_),
                        o_.eps};
    now.lr_on_device = lr_;
    adam_step_(parameters, gradients, first, second, steps, now, found);
  }
  bool looks_at_verdicts() const override { return true; }

 public:
  void move_to(int64_t images_seen) override {
    Optimizer::move_to(images_seen);
    if (lr_.defined()) lr_.fill_(rate(o_.lr) * step_share_);
  }
  bool replayable() const override {
    return lr_.defined() && o_.beta1.is_constant() && o_.beta2.is_constant();
  }

 private:
  AdamOptions o_;
  double step_share_;
  // float32 [] where steps can be recorded, which would freeze the host's number.
  at::Tensor lr_;
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
  void update(std::vector<at::Tensor>& parameters,
              std::vector<at::Tensor>& gradients,
              const at::Tensor& /*found*/) override {
    if (o_.momentum > 0) {
      std::vector<at::Tensor> momentum = moving(momentum_);
      at::_foreach_mul_(momentum, o_.momentum);
      at::_foreach_add_(momentum, gradients);
      at::_foreach_add_(parameters, momentum, -rate(o_.lr));
    } else {
      at::_foreach_add_(parameters, gradients, -rate(o_.lr));
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
  void update(std::vector<at::Tensor>& parameters,
              std::vector<at::Tensor>& gradients,
              const at::Tensor& /*found*/) override {
    std::vector<at::Tensor> square = moving(square_);
    at::_foreach_mul_(square, o_.alpha);
    at::_foreach_addcmul_(square, gradients, gradients, 1 - o_.alpha);
    std::vector<at::Tensor> root = at::_foreach_sqrt(square);
    at::_foreach_add_(root, o_.eps);
    at::_foreach_addcdiv_(parameters, gradients, root, -rate(o_.lr));
  }

 private:
  RmspropOptions o_;
  std::vector<at::Tensor> square_;
};

}  // namespace

std::unique_ptr<Optimizer> Optimizer::create(const PlayerOptions& o,
                                             NamedTensors parameters,
                                             double step_share) {
  switch (o.optimizer) {
    case OptimizerKind::kAdam:
      return std::make_unique<Adam>(o.adam, step_share, std::move(parameters));
    case OptimizerKind::kSgd:
      return std::make_unique<Sgd>(o.sgd, std::move(parameters));
    case OptimizerKind::kRmsprop:
      return std::make_unique<Rmsprop>(o.rmsprop, std::move(parameters));
  }
  throw std::logic_error("no such optimizer");
}

}  // namespace gantrain
