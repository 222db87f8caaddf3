// SPDX-License-Identifier: Apache-2.0
#include "ops/bias_act/bias_act.h"

#include <limits>

#include "ops/cases.h"
#include "support/catch.h"
#include "support/gradient_checks.h"

using namespace gantrain;

namespace {

constexpr size_t kActivations = names(Activation{}).size();

Activation activation_of(const std::string& name) {
  for (size_t i = 0; i < kActivations; ++i) {
    if (names(Activation{})[i] == name) return static_cast<Activation>(i);
  }
  FAIL("no activation " << name);
  return Activation::kLinear;
}

std::optional<double> number(const nlohmann::json& n) {
  return n.is_null() ? std::nullopt : std::optional<double>(n.get<double>());
}

}  // namespace

TEST_CASE("BiasActMatchesReference") {
  for_each_case("ops_bias_act", {"bias_act"}, [](OperatorCase& c) {
    const BiasAct how{activation_of(c.what["act"]),
                      c.what["dim"],
                      number(c.what["alpha"]),
                      number(c.what["gain"]),
                      number(c.what["clamp"])};
    CHECK(default_gain(how.act) == Approx(c.what["def_gain"].get<double>()));
    REQUIRE(c["b"].defined() == c.what["bias"].get<bool>());
    const at::Tensor x = c.leaf("x"), b = c.leaf("b"), dy = c.leaf("dy");
    const at::Tensor y = bias_act(x, b, how);
    c.check("y", y);
    c.check_gradients(y, {{"x", x}, {"b", b}});

    const at::Tensor dx = torch::autograd::grad({y}, {x}, {dy}, true, /*create_graph=*/true)[0];
    const auto second = torch::autograd::grad({dx}, {x, dy}, {c["v"]}, {}, false, true);
    c.check("ddx", second[0].defined() ? second[0] : torch::zeros_like(x));
    c.check("ddy", second[1]);
  });
}

TEST_CASE("FullyConnectedMatchesReference") {
  for_each_case("ops_layers", {"fully_connected"}, [](OperatorCase& c) {
    const double rate = c.what["lr_multiplier"];
    const at::Tensor x = c.leaf("x"), weight = c.leaf("weight"), bias = c.leaf("bias");
    const double gain = rate / std::sqrt(static_cast<double>(x.size(1)));
    const at::Tensor y = bias_act(at::matmul(x, weight.t() * gain),
                                  bias.defined() ? bias * rate : bias,
                                  {activation_of(c.what["activation"])});
    c.check("y", y);
    c.check_gradients(y, {{"x", x}, {"weight", weight}, {"bias", bias}});
  });
}

TEST_CASE("BiasActsDerivativesMatchDifferences") {
  for (const KernelSet set : {KernelSet::kAuto, KernelSet::kRef}) {
    const WithKernels with(set);
    for (size_t i = 0; i < kActivations; ++i) {
      for (const BiasAct& how : {BiasAct{static_cast<Activation>(i)},
                                 BiasAct{static_cast<Activation>(i), 2, 0.3, -1.7, 1.3}}) {
        CAPTURE(names(set)[static_cast<size_t>(set)], names(Activation{})[i], how.dim);
        // Away from the kinks at 0 and where the clamp begins.
        at::Tensor x = torch::randn({3, 1, 5}, at::kDouble);
        const at::Tensor b = torch::randn({x.size(how.dim)}, at::kDouble);
        std::vector<int64_t> shape(3, 1);
        shape[how.dim] = -1;
        const auto near_kink = [&] {
          const at::Tensor u = x + b.reshape(shape), y = bias_act(x, b, how).abs();
          const at::Tensor before = bias_act(x, b, {how.act, how.dim, how.alpha, how.gain}).abs();
          const at::Tensor bad = u.abs() < 1e-3;
          return how.clamp ? bad | ((before - *how.clamp).abs() < 1e-3) : bad;
        };
        x = torch::where(near_kink(), x + 0.01, x);
        REQUIRE_FALSE(near_kink().any().item<bool>());
        const auto y = [&](const Tensors& in) { return bias_act(in[0], in[1], how); };
        CHECK(gradient_error(y, {x, b}) < kGradientTolerance);
        CHECK(second_gradient_error(y, {x, b}) < kGradientTolerance);
        const auto alone = [&](const Tensors& in) {
          return bias_act(in[0] + b.reshape(shape), {}, how);
        };
        CHECK(gradient_error(alone, {x}) < kGradientTolerance);
        CHECK(second_gradient_error(alone, {x}) < kGradientTolerance);
      }
    }
  }
}

TEST_CASE("ThirdDerivativesOfBentActivationsAreNotLost") {
  for (const Activation act : {Activation::kTanh,
                               Activation::kSigmoid,
                               Activation::kElu,
                               Activation::kSelu,
                               Activation::kSoftplus,
                               Activation::kSwish}) {
    const TensorFunction y = [&](const Tensors& in) { return bias_act(in[0], in[1], {act}); };
    const TensorFunction slope = [&](const Tensors& in) {
      return gradients(y, {in[0], in[1]}, torch::ones({2, 3}, at::kDouble))[0];
    };
    CAPTURE(names(act)[static_cast<size_t>(act)]);
    CHECK(second_gradient_error(
              slope, {torch::randn({2, 3}, at::kDouble), torch::randn({3}, at::kDouble)}) <
          kGradientTolerance);
  }
}

TEST_CASE("BothSetsOfBiasActAgreeOnManyShapes") {
  for (size_t i = 0; i < kActivations; ++i) {
    const BiasAct how{static_cast<Activation>(i), 1, 0.1, 1.5, 2.0};
    CAPTURE(names(Activation{})[i]);
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{5, 3}, {2, 3, 7, 19}, {1, 3, 1, 1}, {3, 3, 64, 64}}) {
      const at::Tensor x = torch::randn(shape, at::kDouble), b = torch::randn({3}, at::kDouble);
      const auto run = [&](KernelSet set, const at::Tensor& at_x) {
        const WithKernels with(set);
        return bias_act(at_x, b, how);
      };
      const at::Tensor reference = run(KernelSet::kRef, x);
      CHECK(scaled_error(run(KernelSet::kAuto, x), reference) < 1e-13);
      CHECK(scaled_error(run(KernelSet::kAuto, x.to(at::kFloat)), reference) < 1e-6);
      CHECK(scaled_error(run(KernelSet::kAuto, x.transpose(0, -1).contiguous().transpose(0, -1)),
                         reference) < 1e-13);
    }
  }
}

namespace {

// Layouts of the same numbers: contiguous, channels-last, and with gaps.
Tensors layouts_of(const at::Tensor& x) {
  Tensors all = {
      x, at::stack({x, x}, -1).select(-1, 0), x.transpose(0, -1).clone().transpose(0, -1)};
  if (x.dim() == 4) all.push_back(x.contiguous(at::MemoryFormat::ChannelsLast));
  return all;
}

// y, the first derivatives by x and b, and the derivatives of v * dx + w * db by x, b and dy.
Tensors two_orders(const at::Tensor& x_in, const at::Tensor& b_in, const BiasAct& how) {
  const at::Tensor x = x_in.detach().requires_grad_(true), b = b_in.detach().requires_grad_(true);
  const at::Tensor y = bias_act(x, b, how);
  const at::Tensor dy = (0.5 + x_in.detach()).requires_grad_(true);
  const auto first = torch::autograd::grad({y}, {x, b}, {dy}, true, /*create_graph=*/true);
  const Tensors along = {x_in.cos(), b_in.sin()};
  Tensors all = {y, first[0], first[1]};
  for (const at::Tensor& g : torch::autograd::grad(first, {x, b, dy}, along, true, false, true)) {
    all.push_back(g.defined() ? g : at::zeros({1}, x.options()));
  }
  return all;
}

}  // namespace

// An error is measured against the largest value, so a single one has to be well conditioned
// itself: tanh's slope, 1 - y^2, is not where y is close to 1.
TEST_CASE("Float32KernelsHaveTheDerivativesOfFloat64") {
  torch::manual_seed(1);
  for (size_t i = 0; i < kActivations; ++i) {
    const auto act = static_cast<Activation>(i);
    for (const BiasAct& how : {BiasAct{act}, BiasAct{act, 1, 0.3, -1.7, 1.3}}) {
      for (const std::vector<int64_t>& shape : {std::vector<int64_t>{5, 3},
                                                {1, 1, 1, 1},
                                                {2, 3, 7, 19},
                                                {2, 70, 5, 3},
                                                {1, 2, 80, 90}}) {
        at::Tensor x = torch::randn(shape), b = torch::randn({shape[1]});
        if (x.numel() == 1) x.fill_(0.3), b.fill_(-0.7);
        const Tensors reference = two_orders(x.to(at::kDouble), b.to(at::kDouble), how);
        for (const at::Tensor& laid : layouts_of(x)) {
          CAPTURE(names(act)[i], shape, laid.strides());
          const Tensors found = two_orders(laid, b, how);
          for (size_t k = 0; k < found.size(); ++k) {
            CAPTURE(k);
            CHECK(scaled_error(found[k].detach(), reference[k].detach()) < 2e-6);
          }
        }
      }
    }
  }
}

TEST_CASE("BiasActTakesOtherAxesAndNoBias") {
  const at::Tensor x = torch::randn({3, 4, 5, 6});
  for (const int64_t dim : {0, 2, 3, -1}) {
    const at::Tensor b = torch::randn({x.size(dim)});
    const BiasAct how{Activation::kLrelu, dim};
    const Tensors reference = two_orders(x.to(at::kDouble), b.to(at::kDouble), how);
    for (const at::Tensor& laid : layouts_of(x)) {
      const Tensors found = two_orders(laid, b, how);
      for (size_t k = 0; k < found.size(); ++k) {
        CHECK(scaled_error(found[k].detach(), reference[k].detach()) < 1e-6);
      }
      CHECK(scaled_error(bias_act(laid, {}, how), bias_act(x.to(at::kDouble), {}, how)) < 1e-6);
    }
  }
}

TEST_CASE("BiasActKeepsTheOrderInMemory") {
  const at::Tensor x = torch::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor leaf = x.clone().requires_grad_(true);
  const at::Tensor y = bias_act(leaf, torch::randn({3}), {Activation::kLrelu});
  CHECK(y.is_contiguous(at::MemoryFormat::ChannelsLast));
  const auto dx = torch::autograd::grad({y}, {leaf}, {torch::randn({2, 3, 4, 5})});
  CHECK(dx[0].is_contiguous(at::MemoryFormat::ChannelsLast));
}

TEST_CASE("NumbersThatAreNotFiniteGoWhereLibTorchLetsThem") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const at::Tensor x = torch::tensor({std::nanf(""), kInfinity, -kInfinity, 0.F, 1e30F, -1e30F});
  const auto same = [](const at::Tensor& a, const at::Tensor& b) {
    return at::allclose(a, b, 1e-6, 1e-30, /*equal_nan=*/true);
  };
  for (size_t i = 0; i < kActivations; ++i) {
    for (const std::optional<double> clamp : {std::optional<double>(), std::optional<double>(2)}) {
      const BiasAct how{static_cast<Activation>(i), 0, {}, {}, clamp};
      CAPTURE(names(Activation{})[i], clamp.has_value());
      const at::Tensor fast = x.clone().requires_grad_(true);
      const at::Tensor y = bias_act(fast, {}, how);
      y.sum().backward();
      const at::Tensor exact = x.to(at::kDouble).requires_grad_(true);
      const at::Tensor reference = bias_act(exact, {}, how);
      reference.sum().backward();
      CHECK(same(y.detach(), reference.detach().to(at::kFloat)));
      CHECK(same(fast.grad(), exact.grad().to(at::kFloat)));
    }
  }
}

TEST_CASE("AnEmptyBatchHasAnEmptyResult") {
  const at::Tensor x = torch::randn({0, 3, 4, 4}).requires_grad_(true);
  const at::Tensor b = torch::randn({3}).requires_grad_(true);
  const at::Tensor y = bias_act(x, b, {Activation::kLrelu});
  CHECK(y.sizes() == x.sizes());
  y.sum().backward();
  CHECK(x.grad().sizes() == x.sizes());
  CHECK(b.grad().equal(torch::zeros({3})));
}

TEST_CASE("BiasActHasTheSameBitsOnAnyNumberOfThreads") {
  const int before = at::get_num_threads();
  for (const auto& format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const at::Tensor x = torch::randn({3, 70, 37, 41}).contiguous(format), b = torch::randn({70});
    at::set_num_threads(1);
    const Tensors one = two_orders(x, b, {Activation::kLrelu});
    at::set_num_threads(3);
    const Tensors three = two_orders(x, b, {Activation::kLrelu});
    for (size_t k = 0; k < 3; ++k) CHECK(one[k].equal(three[k]));
  }
  at::set_num_threads(before);
}

TEST_CASE("ADerivativeOfOneIsNotComputed") {
  const at::Tensor x = torch::randn({2, 3}).requires_grad_(true), dy = torch::randn({2, 3});
  const at::Tensor b = torch::randn({3}).requires_grad_(true), y = bias_act(x, b, {});
  CHECK(torch::autograd::grad({y}, {x}, {dy}, true)[0].is_alias_of(dy));
  const auto both = torch::autograd::grad({y}, {x, b}, {dy});
  CHECK(both[0].is_alias_of(dy));
  CHECK(scaled_error(both[1], dy.sum(0)) < 1e-6);
}

TEST_CASE("BiasActKeepsHalfTypes") {
  const at::Tensor x = torch::randn({2, 3, 4, 5}), b = torch::randn({3});
  const BiasAct how{Activation::kLrelu};
  const at::Tensor reference = bias_act(x, b, how);
  for (const KernelSet set : {KernelSet::kAuto, KernelSet::kRef}) {
    const WithKernels with(set);
    for (const auto& [type, tolerance] :
         {std::pair{at::kHalf, 2e-3}, std::pair{at::kBFloat16, 2e-2}}) {
      const at::Tensor leaf = x.to(type).requires_grad_(true),
                       bias = b.clone().requires_grad_(true);
      const at::Tensor y = bias_act(leaf, bias, how);
      CHECK(y.scalar_type() == type);
      CHECK(scaled_error(y.detach(), reference) < tolerance);
      y.sum().backward();
      CHECK(leaf.grad().scalar_type() == type);
      CHECK(bias.grad().scalar_type() == at::kFloat);
    }
  }
}

TEST_CASE("BiasActRefusesABiasOfAnotherSize") {
  CHECK_THROWS(bias_act(torch::ones({2, 3}), torch::ones({2}), {}));
  CHECK_THROWS(bias_act(torch::ones({2, 3}), torch::ones({3}), {Activation::kLrelu, 1, -0.2}));
}
