// SPDX-License-Identifier: Apache-2.0
// Layers where launches cost (ops/device_kernels.h): factors go into weights and products, and
// gradients are added where a filter stores them, with the numbers of the layers as they are
// written.
#include "nn/style/layers.h"

#include "cuda_kernels/random_cases.h"
#include "ops/autocast.h"
#include "ops/convolution/convolution.h"
#include "ops/modulation/modulation.h"
#include "ops/upfirdn2d/upfirdn2d.h"
#include "support/catch.h"

using namespace gantrain;
using at::Tensor;

namespace {

constexpr double kOfFloats = 2e-5, kOfHalves = 4e-3;

Tensor side_by_side(const Tensor& x) { return x.contiguous(at::MemoryFormat::ChannelsLast); }

}  // namespace

TEST_CASE("ProductsWithFactorsAreThoseOfAddmmAndSoAreTheirDerivatives") {
  const WithCudaKernels kernels;
  Dice dice(3);
  const Tensor x = at::randn({5, 7}), w = at::randn({4, 7}), b = at::randn({4});
  REQUIRE(launches_cost(x));
  for (const LinearFactors factors : {LinearFactors{0.3, 1}, {1.7, 0.01}}) {
    const auto dense = [&](const Tensors& in) {
      return scaled_linear(in[0], in[1], in[2], factors).square();
    };
    CHECK(derivatives_error(dense, {x, w, b}) < kOfFloats);
  }
  const Tensor y = scaled_linear(x.clone().requires_grad_(), w, b, {});
  CHECK(y.grad_fn()->name().find("ScaledLinear") != std::string::npos);
}

TEST_CASE("AWeightOfTensorCoresIsMadeInOnePass") {
  const WithCudaKernels kernels;
  const Tensor w = at::randn({6, 5, 3, 3}).requires_grad_(), x = at::empty({1, 5, 4, 4}, at::kHalf);
  const Tensor half = convolution_weight(w, 0.37, x);
  CHECK(half.is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(at::equal(half, (w * 0.37).to(at::kHalf)));
  const Tensor g = at::randn(w.sizes()).to(at::kHalf);
  const Tensor found = torch::autograd::grad({half}, {w}, {side_by_side(g)})[0];
  CHECK(found.is_contiguous());
  CHECK(at::equal(found, g.to(at::kFloat) * 0.37));
  const WithKernels reference(KernelSet::kRef);
  CHECK(convolution_weight(w, 0.37, x).is_contiguous());
}

TEST_CASE("AFilterThatAddsIsTheFilterAndASum") {
  Dice dice(5);
  const Tensor row = at::tensor({1., 3., 3., 1.}) / 8, f = at::outer(row, row);
  int64_t fused = 0;
  for (int i = 0; i < 120; ++i) {
    const auto type = dice.one_of({at::kFloat, at::kHalf, at::kBFloat16});
    const int64_t channels = dice.one_of<int64_t>({3, 8, 16, 40});
    const Tensor x = random_strides(
        dice,
        at::randn({1 + dice.up_to(2), channels, 1 + dice.up_to(20), 1 + dice.up_to(20)}).to(type));
    UpFirDn how{.up = {2, 2}, .padding = {2, 1 + dice.up_to(1), 2, 1 + dice.up_to(1)}};
    how.flip_filter = dice.coin();
    how.gain = dice.coin() ? 1 : 2.5;
    const Tensor filtered = cuda_upfirdn2d(x, f, how);
    const Tensor added = random_strides(dice, at::randn(filtered.sizes()).to(type));
    const Tensor found = cuda_upfirdn2d_added(x, f, how, added);
    CAPTURE(i, type, x.sizes(), x.strides(), added.strides());
    REQUIRE(found.scalar_type() == type);
    CHECK(found.is_contiguous(x.suggest_memory_format()));
    const Tensor exact = kComposedKernels.upfirdn2d(x.to(at::kDouble), f.to(at::kDouble), how) +
                         added.to(at::kDouble);
    const double roundings = 2 * epsilon_of(type) + 16 * epsilon_of(at::kFloat);
    CHECK(share_of_error(found, exact) < roundings);
    fused += share_of_error(found, exact) < epsilon_of(type) + 16 * epsilon_of(at::kFloat) ? 1 : 0;
  }
  CHECK(fused > 30);
}

TEST_CASE("WhatIsUsedBesideItsFilterHasTheSumOfBothGradients") {
  const WithCudaKernels kernels;
  Dice dice(7);
  const Tensor row = at::tensor({1., 3., 3., 1.}) / 8, f = at::outer(row, row);
  UpFirDn how{.down = {2, 2}};
  how.padding = centred_down({}, f, how.down);
  for (const auto& [type, tolerance] : {std::pair{at::kFloat, kOfFloats}, {at::kHalf, kOfHalves}}) {
    for (const int64_t channels : {3, 16}) {
      const Tensor x = side_by_side(at::randn({2, channels, 12, 10}).to(type));
      const auto both = [&](const Tensors& in) {
        const Filtered found = upfirdn2d_beside(side_by_side(in[0]), f, how);
        return at::cat({found.x.flatten(), (found.filtered * found.filtered).flatten()});
      };
      CAPTURE(type, channels);
      CHECK(derivatives_error(both, {x}) < tolerance);
    }
  }
  // A gradient of one of them alone.
  const Tensor x = side_by_side(at::randn({2, 16, 12, 10})).requires_grad_();
  const Filtered found = upfirdn2d_beside(x, f, how);
  CHECK(at::equal(torch::autograd::grad({found.x.sum()}, {x}, {}, true)[0], at::ones_like(x)));
  CHECK(torch::autograd::grad({found.filtered.sum()}, {x})[0].abs().max().item<double>() > 0);
}

TEST_CASE("AnEpilogueWithAResidualIsTheEpilogueAndASum") {
  const WithCudaKernels kernels;
  Dice dice(8);
  for (int i = 0; i < 60; ++i) {
    const auto type = dice.one_of({at::kFloat, at::kHalf, at::kBFloat16});
    const int64_t channels = dice.one_of<int64_t>({3, 8, 40}), size = dice.one_of({3, 8, 20});
    const Tensor y = random_strides(dice, at::randn({2, channels, size, size}).to(type)),
                 added = random_strides(dice, at::randn(y.sizes()).to(type));
    const ActTensors t{
        dice.coin() ? at::rand({2, channels}) : Tensor(), {}, {}, at::randn({channels})};
    const ActNumbers how{0.7, 0.2, 1.4, 1.5};
    const Tensor found = cuda_act_added(y, t, how, added);
    const Tensor wide = cuda_act(y.to(at::kFloat), t, how) + added.to(at::kFloat);
    CAPTURE(i, type, y.sizes(), y.strides(), added.strides());
    CHECK(at::equal(found, wide.to(type)));
    // Slopes from y are those of what comes out of it.
    const Tensor grad = at::randn(y.sizes()).to(type);
    const ActWanted wanted{t.d.defined(), false, true};
    const ActDerivatives first = cuda_act_gradient({grad, y, cuda_act(y, t, how)}, t, how, wanted);
    const ActDerivatives anew =
        cuda_act_scaled_gradient({grad, {}, y}, t, how, {}, wanted, false).terms;
    CHECK(at::equal(anew.y, first.y));
    CHECK(share_of_error(anew.bias, first.bias) < kOfFloats);  // other parts, other roundings
    if (wanted.d) CHECK(share_of_error(anew.d, first.d) < kOfFloats);
  }
  BiasAct leaky;
  leaky.act = Activation::kLrelu;
  leaky.clamp = 1.7;
  const auto beside = [&](const Tensors& in) {
    return modulated_act_beside(in[1], in[0], {.d = in[2], .bias = in[3], .scale = 0.7}, leaky);
  };
  const Tensor x = at::randn({2, 8, 9, 7}), added = at::randn(x.sizes());
  CHECK(derivatives_error(beside, {x, added, at::rand({2, 8}), at::randn({8})}) < kOfFloats);
  CHECK(beside({x.clone().requires_grad_(), added, at::rand({2, 8}), at::randn({8})})
            .grad_fn()
            ->name()
            .find("AddedAct") != std::string::npos);
}

// With the CUDA library's kernels and with composed ones.
TEST_CASE("LayersWhoseFactorsAreFoldedKeepTheirNumbers") {
  torch::manual_seed(9);
  ResamplingConv2d skip({.in = 8, .out = 6, .kernel = 1, .bias = false, .down = 2});
  ResamplingConv2d conv(
      {.in = 8, .out = 6, .kernel = 3, .act = Activation::kLrelu, .down = 2, .clamp = 256});
  initialise_style_layers(skip, "skip", 1);
  initialise_style_layers(conv, "conv", 1);
  const auto block = [&](const Tensor& x) {
    const ResamplingConv2d::Beside both = skip.forward_beside(x, 0.7);
    return conv.forward(both.x, 0.7, both.result);
  };
  const auto gradients = [&](const Tensor& given) {
    Tensors of = {given.detach().requires_grad_(), skip.weight, conv.weight, conv.bias};
    const Tensor y = block(of[0]);
    Tensors found = torch::autograd::grad({y.to(at::kFloat).square().sum()}, of);
    found.push_back(y.detach());
    return found;
  };
  for (const auto& [type, tolerance] : {std::pair{at::kFloat, kOfFloats}, {at::kHalf, kOfHalves}}) {
    const Tensor x = side_by_side(at::randn({2, 8, 12, 10}).to(type));
    Tensors found, expected;
    {
      const WithCudaKernels kernels;
      found = gradients(x);
    }
    {
      const WithKernels reference(KernelSet::kRef);
      expected = gradients(x);
    }
    for (size_t i = 0; i < found.size(); ++i) {
      CAPTURE(type, i);
      CHECK(found[i].scalar_type() == expected[i].scalar_type());
      CHECK(share_of_error(found[i], expected[i]) < tolerance);
    }
  }
}
