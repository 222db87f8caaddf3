// SPDX-License-Identifier: Apache-2.0
#include "ops/bias_act.h"

#include <catch2/catch.hpp>

#include "gradient_checks.h"
#include "ops/cases.h"

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
