// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "augment/augment.h"
#include "core/torch.h"

namespace gantrain {

// Stored numbers, in the order in which they are asked for.
class StoredDraws final : public AugmentDraws {
 public:
  explicit StoredDraws(std::vector<at::Tensor> numbers) : numbers_(std::move(numbers)) {}
  at::Tensor uniform(const std::string&, at::IntArrayRef shape) override { return next(shape); }
  at::Tensor normal(const std::string&, at::IntArrayRef shape) override { return next(shape); }
  size_t left() const { return numbers_.size() - used_; }

 private:
  at::Tensor next(at::IntArrayRef shape) {
    const at::Tensor numbers = numbers_.at(used_++);
    std::vector<int64_t> all = shape.vec();
    all.insert(all.begin(), numbers.size(0));
    return numbers.reshape(all).contiguous();
  }
  std::vector<at::Tensor> numbers_;
  size_t used_ = 0;
};

// Every parameter at one quantile q, applied to every sample, in the fixtures' sense: the normal
// "quantile" lacks a factor of sqrt 2, and the second rotation is by nothing.
class PercentileDraws final : public AugmentDraws {
 public:
  PercentileDraws(double q, int64_t samples) : q_(q), samples_(samples) {}
  at::Tensor uniform(const std::string& name, at::IntArrayRef shape) override {
    if (name.size() > 3 && name.substr(name.size() - 3) == "/on") return filled(0, shape);
    return filled(name == "rotate/after" ? .5 : q_, shape);
  }
  at::Tensor normal(const std::string&, at::IntArrayRef shape) override {
    return filled(torch::erfinv(torch::tensor(2 * q_ - 1, at::kDouble)).item<double>(), shape);
  }

 private:
  at::Tensor filled(double value, at::IntArrayRef shape) const {
    std::vector<int64_t> all = shape.vec();
    all.insert(all.begin(), samples_);
    return at::full(all, value);
  }
  double q_;
  int64_t samples_;
};

using Switch = double AugmentOptions::*;

// The multipliers by their keys.
inline const std::map<std::string, Switch>& switches() {
  using O = AugmentOptions;
  static const std::map<std::string, Switch> all = {{"xflip", &O::xflip},
                                                    {"rotate90", &O::rotate90},
                                                    {"xint", &O::xint},
                                                    {"scale", &O::scale},
                                                    {"rotate", &O::rotate},
                                                    {"aniso", &O::aniso},
                                                    {"xfrac", &O::xfrac},
                                                    {"brightness", &O::brightness},
                                                    {"contrast", &O::contrast},
                                                    {"lumaflip", &O::lumaflip},
                                                    {"hue", &O::hue},
                                                    {"saturation", &O::saturation},
                                                    {"imgfilter", &O::imgfilter},
                                                    {"noise", &O::noise},
                                                    {"cutout", &O::cutout}};
  return all;
}

inline AugmentOptions only(std::initializer_list<Switch> on) {
  AugmentOptions o;
  for (const auto& [name, which] : switches()) o.*which = 0;
  for (const Switch which : on) o.*which = 1;
  return o;
}

// Smooth pictures in [-1, 1], not symmetric in any way, float64.
inline at::Tensor pictures(int64_t count, int64_t channels, int64_t height, int64_t width) {
  const auto axis = [](int64_t n) {
    return torch::arange(n, at::kDouble) / static_cast<double>(n);
  };
  const at::Tensor n = axis(count).view({-1, 1, 1, 1}), c = axis(channels).view({1, -1, 1, 1});
  const at::Tensor y = axis(height).view({1, 1, -1, 1}), x = axis(width).view({1, 1, 1, -1});
  return (5 * x + 3 * y * y + 2 * c + 4 * n + 3 * x * y).sin() * .7 + .2 * x - .1 * y;
}

inline StreamDraws stream_draws(int64_t count, int64_t iteration = 0) {
  return StreamDraws(make_draw_key(1, iteration, 0, at::kCPU), {0, 1, count});
}

// p as augment() takes it.
inline at::Tensor strength(double p) { return torch::tensor(p, at::kDouble); }

inline double difference(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.sizes() == b.sizes(), "shapes differ: ", a.sizes(), " and ", b.sizes());
  return (a - b).abs().max().item<double>();
}

}  // namespace gantrain
