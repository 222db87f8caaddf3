// SPDX-License-Identifier: Apache-2.0
#include "ops/modulation/modulation.h"

#include "ops/cases.h"
#include "ops/kernels.h"
#include "support/catch.h"
#include "support/float32_checks.h"
#include "support/gradient_checks.h"

using namespace gantrain;
using at::Tensor;

namespace {

constexpr double kFloat32Tolerance = 5e-6;

enum class Noise { kNone, kShared, kShared4d, kPerSample };

struct ActCase {
  std::vector<int64_t> maps;
  Noise noise = Noise::kNone;
  bool d = false, bias = false, strength_per_channel = false;
  double scale = 1;
  BiasAct act = {};
};

BiasAct activation(Activation act, std::optional<double> clamp, std::optional<double> gain = {}) {
  BiasAct how;
  how.act = act;
  how.clamp = clamp;
  how.gain = gain;
  return how;
}

std::vector<ActCase> act_cases() {
  const BiasAct lrelu = activation(Activation::kLrelu, 0.9), linear = {};
  return {
      {{2, 3, 8, 8}, Noise::kPerSample, true, true, false, 1, lrelu},
      {{2, 3, 5, 7}, Noise::kShared, true, true, false, 1, activation(Activation::kLrelu, {})},
      {{3, 2, 1, 3}, Noise::kShared4d, true, false, true, 1, lrelu},
      {{1, 4, 17, 9}, Noise::kNone, true, true, false, 1, lrelu},
      {{2, 3, 6, 5}, Noise::kNone, false, true, false, 0.3, lrelu},
      {{2, 3, 6, 5}, Noise::kNone, false, true, false, 1, activation(Activation::kLinear, 0.5)},
      {{2, 3, 6, 5}, Noise::kNone, true, false, false, 1, linear},
      {{2, 3, 4, 4},
       Noise::kNone,
       false,
       false,
       false,
       0.7,
       activation(Activation::kLinear, {}, .5)},
      {{2, 3, 4, 5}, Noise::kPerSample, true, true, true, 0.7, activation(Activation::kRelu, 2)},
      {{2, 2, 70, 70}, Noise::kPerSample, true, true, false, 1, lrelu},
  };
}

Tensor noise_of(const ActCase& c) {
  const int64_t n = c.maps[0], h = c.maps[2], w = c.maps[3];
  switch (c.noise) {
    case Noise::kNone:
      return {};
    case Noise::kShared:
      return torch::randn({h, w}, at::kDouble);
    case Noise::kShared4d:
      return torch::randn({1, 1, h, w}, at::kDouble);
    case Noise::kPerSample:
      return torch::randn({n, 1, h, w}, at::kDouble);
  }
  return {};
}

// The inputs that are differentiated by, x first, and the function of them.
struct Built {
  Tensors inputs;
  TensorFunction f;
};
Built built(const ActCase& c) {
  torch::manual_seed(5);
  const int64_t n = c.maps[0], channels = c.maps[1];
  Built b{{torch::randn(c.maps, at::kDouble)}, {}};
  const Tensor noise = noise_of(c);
  if (c.d) b.inputs.push_back(torch::randn({n, channels}, at::kDouble));
  if (noise.defined())
    b.inputs.push_back(c.strength_per_channel ? torch::randn({channels}, at::kDouble)
                                              : torch::randn({}, at::kDouble));
  if (c.bias) b.inputs.push_back(torch::randn({channels}, at::kDouble));
  b.f = [c, noise](const Tensors& in) {
    ModulatedAct terms;
    terms.scale = c.scale;
    size_t next = 1;
    if (c.d) terms.d = in[next++];
    if (noise.defined()) {
      terms.noise = noise.to(at::kFloat).to(in[0].scalar_type());
      terms.strength = in[next++];
    }
    if (c.bias) terms.bias = in[next++];
    return modulated_act(in[0], terms, c.act);
  };
  return b;
}

// Names of the autograd nodes of y: one of ours where the pass is fused.
bool is_fused(const Tensor& y) {
  return y.grad_fn()->name().find("::ActFunction") != std::string::npos;
}

}  // namespace

TEST_CASE("TheFusedEpilogueAndItsDerivativesMatchTheComposedOnesInFloat64") {
  for (const ActCase& c : act_cases()) {
    CAPTURE(c.maps, static_cast<int>(c.noise), c.d, c.bias, c.scale);
    const Built b = built(c);
    CHECK(float32_error(b.f, b.inputs, /*order=*/3) < kFloat32Tolerance);
  }
}

TEST_CASE("TheEpilogueDoesNotDependOnTheNumberOfThreads") {
  for (ActCase c : act_cases()) {
    c.maps = {3, 5, 41, 83};  // enough for two threads
    const Built b = built(c);
    Tensors inputs;
    for (const Tensor& x : b.inputs) inputs.push_back(x.to(at::kFloat));
    CHECK(threads_agree(b.f, inputs));
  }
}

TEST_CASE("MapsWhoseChannelsLieSideBySideGiveTheSameAndStaySo") {
  std::vector<ActCase> all = act_cases();
  all.push_back(all[0]);
  all.back().maps = {2, 600, 17, 19};  // several parts of pixels, several blocks of channels
  for (const ActCase& c : all) {
    CAPTURE(c.maps, static_cast<int>(c.noise), c.d, c.bias, c.scale);
    const Built b = built(c);
    const TensorFunction f = [&b](const Tensors& in) {
      Tensors arguments = in;
      arguments[0] = in[0].contiguous(at::MemoryFormat::ChannelsLast);
      return b.f(arguments);
    };
    CHECK(float32_error(f, b.inputs, /*order=*/3) < kFloat32Tolerance);
    Tensors inputs;
    for (const Tensor& x : b.inputs) inputs.push_back(x.to(at::kFloat));
    CHECK(threads_agree(f, inputs));
    const Tensor x = inputs[0].contiguous(at::MemoryFormat::ChannelsLast);
    CHECK(f(inputs).suggest_memory_format() == x.suggest_memory_format());
  }
}

TEST_CASE("TheFormulaOfTheEpilogueIsThePapers") {
  const Tensor x = torch::randn({2, 3, 4, 4}), d = torch::rand({2, 3}),
               noise = torch::randn({4, 4}), strength = torch::randn({}), bias = torch::randn({3});
  const Tensor u = x * d.reshape({2, 3, 1, 1}) + strength * noise + bias.reshape({3, 1, 1});
  const Tensor expected = (torch::leaky_relu(u, 0.2) * std::sqrt(2.0)).clamp(-0.6, 0.6);
  const Tensor y =
      modulated_act(x, {d, noise, strength, bias}, activation(Activation::kLrelu, 0.6));
  CHECK(scaled_error(y, expected) < 1e-6);
  CHECK(y.abs().max().item<float>() == 0.6f);
}

TEST_CASE("OnlyFloat32OfKernelsAutoIsOnePass") {
  const auto fused = [](at::ScalarType type) {
    const Tensor x = torch::randn({2, 3, 4, 4}).to(type).requires_grad_(true);
    return is_fused(
        modulated_act(x, {.bias = torch::randn({3})}, activation(Activation::kLrelu, {})));
  };
  CHECK(fused(at::kFloat));
  CHECK_FALSE(fused(at::kDouble));
  CHECK_FALSE(fused(at::kHalf));
  const WithKernels ref(KernelSet::kRef);
  CHECK_FALSE(fused(at::kFloat));
}

TEST_CASE("NoiseThatIsDifferentiatedByIsComposed") {
  const Tensor x = torch::randn({2, 3, 4, 4}), noise = torch::randn({4, 4}).requires_grad_(true);
  const Tensor y = modulated_act(x, {.noise = noise, .strength = torch::ones({})}, {});
  y.sum().backward();
  CHECK(torch::allclose(noise.grad(), torch::full({4, 4}, 6.f)));
}

TEST_CASE("AnEmptyBatchGoesThroughTheEpilogue") {
  const Tensor x = torch::empty({0, 3, 4, 4}).requires_grad_(true),
               bias = torch::ones({3}).requires_grad_(true),
               d = torch::empty({0, 3}).requires_grad_(true);
  const Tensor y = modulated_act(x, {.d = d, .bias = bias}, activation(Activation::kLrelu, 1));
  CHECK(y.sizes() == x.sizes());
  y.sum().backward();
  CHECK(torch::equal(bias.grad(), torch::zeros({3})));
  CHECK(d.grad().sizes() == d.sizes());
}

TEST_CASE("NotANumberStaysNotANumber") {
  const Tensor x = torch::full({1, 1, 3, 7}, std::nan(""));
  CHECK(modulated_act(x, {.bias = torch::ones({1})}, activation(Activation::kLrelu, 1))
            .isnan()
            .all()
            .item<bool>());
}

TEST_CASE("OnlyTheDerivativesAskedForAreMade") {
  const Tensor x = torch::randn({2, 3, 4, 4}).requires_grad_(true),
               d = torch::randn({2, 3}).requires_grad_(true),
               bias = torch::randn({3}).requires_grad_(true);
  const Tensor y = modulated_act(x, {.d = d, .bias = bias}, activation(Activation::kLrelu, {}));
  const Tensor alone = torch::autograd::grad({y.sum()}, {d}, {}, /*retain_graph=*/true)[0];
  y.sum().backward();
  CHECK(torch::equal(alone, d.grad()));
  const Tensor frozen = modulated_act(
      x, {.d = d.detach(), .bias = bias.detach()}, activation(Activation::kLrelu, {}));
  CHECK(torch::equal(torch::autograd::grad({frozen.sum()}, {x})[0], x.grad()));
}

TEST_CASE("ScaledChannelsMatchTheirProductInFloat64") {
  torch::manual_seed(6);
  const auto f = [](const Tensors& in) { return channels_scaled(in[0], in[1]); };
  for (const std::vector<int64_t>& maps : {std::vector<int64_t>{2, 3, 4, 4}, {3, 2, 5, 7}}) {
    const Tensors inputs = {torch::randn(maps, at::kDouble),
                            torch::randn({maps[0], maps[1]}, at::kDouble)};
    CHECK(float32_error(f, inputs, 3) < kFloat32Tolerance);
  }
  const Tensor shared = torch::randn({1, 3, 4, 4}).expand({2, 3, 4, 4}), s = torch::randn({2, 3});
  CHECK(torch::equal(channels_scaled(shared, s), shared * s.reshape({2, 3, 1, 1})));
}

namespace {

Tensor modulated_conv2d(const Tensor& x,
                        const Tensor& weight,
                        const Tensor& styles,
                        const Tensor& noise,
                        const Tensor& f,
                        const ModulatedConv& how) {
  return modulated_layer(x, weight, styles, f, how, {.noise = noise}, {});
}

}  // namespace

TEST_CASE("ModulatedConvMatchesReference") {
  for_each_case("ops_modulated_conv2d", {"modulated_conv2d"}, [](OperatorCase& c) {
    const ModulatedConv how{c.what["up"],
                            c.what["down"],
                            c.what["padding"],
                            c.what["demodulate"],
                            c.what["flip_weight"],
                            c.what["fused_modconv"]};
    REQUIRE(c["noise"].defined() == c.what["noise"].get<bool>());
    const at::Tensor x = c.leaf("x"), weight = c.leaf("weight"), styles = c.leaf("styles");
    const at::Tensor y = modulated_conv2d(x, weight, styles, c["noise"], c["f"], how);
    c.check("y", y);
    c.check_gradients(y, {{"x", x}, {"weight", weight}, {"styles", styles}});
  });
}

TEST_CASE("ModulatedConvsDerivativesMatchDifferences") {
  const at::Tensor f = torch::randn({4, 4}, at::kDouble);
  for (const ModulatedConv& how : {ModulatedConv{2, 1, 1, true, false, true},
                                   ModulatedConv{2, 1, 1, true, false, false},
                                   ModulatedConv{1, 2, 1, true, true, false},
                                   ModulatedConv{1, 1, 2, false, true, true}}) {
    const auto y = [&](const Tensors& in) {
      return modulated_conv2d(in[0], in[1], in[2], in[3], f, how);
    };
    CAPTURE(how.up, how.down, how.fused);
    const at::Tensor x = torch::randn({2, 1, 5, 7}, at::kDouble),
                     w = torch::randn({3, 1, 3, 3}, at::kDouble),
                     s = torch::rand({2, 1}, at::kDouble) + 0.5;
    const at::Tensor noise =
        torch::randn_like(modulated_conv2d(x, w, s, {}, f, how).select(1, 0).unsqueeze(1));
    CHECK(gradient_error(y, {x, w, s, noise}) < kGradientTolerance);
    CHECK(second_gradient_error(y, {x, w, s, noise}) < kGradientTolerance);
  }
}

TEST_CASE("DemodulatedOutputsHaveUnitVariance") {
  const at::Tensor x = torch::randn({4, 32, 24, 24}), w = torch::randn({16, 32, 3, 3}) * 7;
  const at::Tensor styles = torch::rand({4, 32}) * 5;
  const at::Tensor y = modulated_conv2d(x, w, styles, {}, {}, {});
  CHECK(y.std().item<float>() == Approx(1).epsilon(0.05));
}

TEST_CASE("HalfPrecisionSurvivesLargeWeightsAndStyles") {
  const at::Tensor x = torch::randn({2, 8, 6, 6}), w = torch::randn({4, 8, 3, 3}) * 300,
                   styles = torch::randn({2, 8}) * 500, noise = torch::randn({6, 6});
  for (const bool fused : {true, false}) {
    const ModulatedConv how{1, 1, 1, true, true, fused};
    const at::Tensor reference = modulated_conv2d(x, w, styles, noise, {}, how);
    for (const auto& [type, tolerance] :
         {std::pair{at::kHalf, 5e-3}, std::pair{at::kBFloat16, 5e-2}}) {
      const at::Tensor y = modulated_conv2d(x.to(type), w, styles, noise, {}, how);
      CHECK(y.scalar_type() == type);
      CHECK(scaled_error(y, reference) < tolerance);
    }
  }
}

TEST_CASE("SumsOfSquaresAndTheirDerivativesMatchFloat64") {
  const auto f = [](const Tensors& in) { return square_sums(in[0]); };
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{4, 5, 3, 3}, {3, 2, 1, 1}, {2, 3, 4, 4}, {0, 3, 3, 3}}) {
    CAPTURE(shape);
    torch::manual_seed(1);
    const Tensors w = {torch::randn(shape, at::kDouble)};
    const double error = shape[0] == 0 ? 0 : float32_error(f, w, 3);
    CHECK(error < 2e-6);
    CHECK(f({w[0].to(at::kFloat)}).sizes() == at::IntArrayRef({shape[0], shape[1]}));
  }
}

TEST_CASE("SumsOfSquaresDoNotDependOnTheNumberOfThreads") {
  const auto f = [](const Tensors& in) { return square_sums(in[0]); };
  CHECK(threads_agree(f, {torch::randn({64, 96, 3, 3})}));
}
