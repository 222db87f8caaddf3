// SPDX-License-Identifier: Apache-2.0
#include "train/step/optimizer.h"

#include <algorithm>
#include <cmath>

#include "core/torch.h"
#include "ops/adam/adam.h"

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
  update(parameters, gradients, verdict.finite ? at::Tensor() : verdict.found);
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

// Makes a step that is left out on the device, where GradientVerdict::found says so, by what it
// adds: zeros. Without a verdict everything is as it is.
class LeftOut {
 public:
  explicit LeftOut(const at::Tensor& found) {
    if (found.defined()) bad_ = found.reshape({}) > 0;
  }

  // Returns the tensors, or `instead` everywhere where the step is left out.
  std::vector<at::Tensor> or_else(const std::vector<at::Tensor>& tensors, double instead) const {
    if (!bad_.defined()) return tensors;
    std::vector<at::Tensor> all;
    for (const at::Tensor& tensor : tensors) all.push_back(tensor.masked_fill(bad_, instead));
    return all;
  }
  // Multiplies by `factor`, unless the step is left out.
  void scale_(std::vector<at::Tensor>& tensors, double factor) const {
    if (!bad_.defined()) {
      at::_foreach_mul_(tensors, factor);
      return;
    }
    const at::Tensor one = at::ones({}, tensors.front().options());
    at::_foreach_mul_(tensors, at::where(bad_, one, at::full_like(one, factor)));
  }

 private:
  at::Tensor bad_;  // bool []
};

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

 public:
  void advance_to(int64_t images_seen) override {
    Optimizer::advance_to(images_seen);
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
              const at::Tensor& found) override {
    const LeftOut left_out(found);
    // x + -0 = x for every x, the sign of 0 too.
    const std::vector<at::Tensor> added = left_out.or_else(gradients, -0.0);
    if (o_.momentum > 0) {
      std::vector<at::Tensor> momentum = moving(momentum_);
      left_out.scale_(momentum, o_.momentum);
      at::_foreach_add_(momentum, added);
      at::_foreach_add_(parameters, left_out.or_else(momentum, 0), -rate(o_.lr));
    } else {
      at::_foreach_add_(parameters, added, -rate(o_.lr));
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
              const at::Tensor& found) override {
    const LeftOut left_out(found);
    const std::vector<at::Tensor> added = left_out.or_else(gradients, 0);
    std::vector<at::Tensor> square = moving(square_);
    left_out.scale_(square, o_.alpha);
    at::_foreach_addcmul_(square, added, added, 1 - o_.alpha);
    std::vector<at::Tensor> root = at::_foreach_sqrt(square);
    at::_foreach_add_(root, o_.eps);
    at::_foreach_addcdiv_(parameters, added, left_out.or_else(root, 1), -rate(o_.lr));
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

double ema_beta(const EmaOptions& o, int64_t images_seen, int64_t batch) {
  double half_life = o.half_life.at(images_seen);
  if (o.rampup > 0) half_life = std::min(half_life, static_cast<double>(images_seen) * o.rampup);
  return half_life <= 0 ? 0 : std::pow(0.5, static_cast<double>(batch) / half_life);
}

void update_ema(torch::nn::Module& average,
                const torch::nn::Module& source,
                const DeviceNumber& weight) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> averages = average.parameters();
  lerp_(averages, source.parameters(), weight);
  const std::vector<at::Tensor> from = source.buffers();
  std::vector<at::Tensor> to = average.buffers();
  for (size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

}  // namespace gantrain
