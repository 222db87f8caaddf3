// SPDX-License-Identifier: Apache-2.0
#include "ops/autocast.h"

#include "core/forward_precision.h"
#include "ops/upfirdn2d/upfirdn2d.h"
#include "support/catch.h"
#include "support/computed_text.h"
#include "support/tensor_checks.h"

using namespace gantrain;
using at::Tensor;

namespace {

struct Operands {
  Tensor x, w, b;
};

Operands operands(at::ScalarType type) {
  torch::manual_seed(1);
  const auto of = [&](at::IntArrayRef size) {
    return (0.2 * torch::randn(size)).to(type).requires_grad_(true);  // squares stay in range
  };
  return {of({2, 4, 6, 6}), of({6, 4, 3, 3}), of({6})};
}

Tensor conv(const Operands& o) { return autocast_conv2d(o.x, o.w, o.b, {1, {1, 1}}); }

// Of the sum of squares of the convolution's gradient by x: needs the second derivative.
std::vector<Tensor> second_gradients(const Operands& o, const std::function<Tensor()>& y) {
  const Tensor g = torch::autograd::grad(
      {y().to(at::kFloat).square().sum()}, {o.x}, {}, true, /*create_graph=*/true)[0];
  return torch::autograd::grad({g.to(at::kFloat).square().sum()}, {o.x, o.w, o.b});
}

}  // namespace

TEST_CASE("HalfOnACpuIsLibTorchsHalfUpToRounding") {
  const Operands o = operands(at::kHalf);
  const Tensor y = conv(o), own = at::conv2d(o.x, o.w, o.b, 1, 1);
  CHECK(y.scalar_type() == at::kHalf);
  CHECK(scaled_error(y, own) < 1e-3);
  const Tensor dy = torch::randn(y.sizes()).to(at::kHalf);
  const auto a = torch::autograd::grad({y}, {o.x, o.w, o.b}, {dy});
  const auto b = torch::autograd::grad({own}, {o.x, o.w, o.b}, {dy});
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].scalar_type() == at::kHalf);
    CHECK(scaled_error(a[i], b[i]) < 2e-3);
  }
}

TEST_CASE("LoweredOperatorsAreTwiceDifferentiableInEveryType") {
  const Operands exact = operands(at::kFloat);
  const auto expected = second_gradients(exact, [&] { return conv(exact); });
  for (const auto& [type, tolerance] :
       {std::pair{at::kHalf, 5e-3}, std::pair{at::kBFloat16, 4e-2}}) {
    const Operands o = operands(type);
    const auto got = second_gradients(o, [&] { return conv(o); });
    for (size_t i = 0; i < got.size(); ++i) {
      CAPTURE(c10::toString(type), i);
      CHECK(scaled_error(got[i], expected[i]) < tolerance);
    }
  }
}

TEST_CASE("UnderAutocastWeightsOfFloat32GetGradientsOfFloat32") {
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    const ForwardPrecision lowered{type, {}};
    const Operands o = operands(at::kFloat);
    const Tensor z = torch::randn({3, 6}), dense = torch::randn({5, 6}).requires_grad_(true);
    std::vector<Computed> seen;
    Tensor y, up, product;
    {
      const AutocastScope pass(lowered, at::kCPU, &seen);
      y = conv(o);
      up = autocast_conv_transpose2d(o.x, o.w.transpose(0, 1), o.b, {.stride = 2});
      product = autocast_linear(z, dense);
    }
    CHECK(seen == std::vector<Computed>{{"", type, ""}});
    CHECK(y.scalar_type() == type);
    CHECK(up.scalar_type() == type);
    CHECK(product.scalar_type() == type);
    (y.sum() + up.sum() + product.sum()).backward();
    CHECK(o.w.grad().scalar_type() == at::kFloat);
    CHECK(dense.grad().scalar_type() == at::kFloat);
    CHECK(scaled_error(y, conv(o)) < 2e-2);
    CHECK(scaled_error(product, autocast_linear(z, dense)) < 2e-2);
    CHECK(scaled_error(y, conv(o)) > 1e-5);  // it was lowered
  }
}

TEST_CASE("AChosenProductRoundsItsOperandsAndReturnsFloat32") {
  const Operands o = operands(at::kFloat);
  const ConvPlace place{2, {1, 1}};
  const Tensor exact = autocast_conv2d(o.x, o.w, o.b, place);
  const Tensor z = torch::randn({3, 6}), dense = torch::randn({5, 6});
  ForwardPrecision precision;
  precision.choice = std::make_shared<ProductChoice>(
      *choice_from("conv2d 4x6x6 6x4x3x3 s2 p1x1 = bfloat16, linear 6 5x6 = float32"));
  std::vector<Computed> seen;
  ProductRecord record;
  Tensor y, product, island;
  {
    const AutocastScope pass(precision, at::kCPU, &seen);
    const ProductRecording counted(record, 1);
    y = autocast_conv2d(o.x, o.w, o.b, place);
    product = autocast_linear(z, dense);
    const AutocastDisabled within("a reason");
    island = autocast_conv2d(o.x, o.w, o.b, place);
  }
  const auto low = [](const Tensor& t) { return t.to(at::kBFloat16); };
  const Tensor rounded = at::conv2d(low(o.x), low(o.w), low(o.b), 2, 1);
  CHECK(y.scalar_type() == at::kFloat);
  CHECK(torch::equal(y, rounded.to(at::kFloat)));
  CHECK(torch::equal(product, autocast_linear(z, dense)));
  CHECK(torch::equal(island, exact));
  CHECK(seen == std::vector<Computed>{{"", at::kBFloat16, "measured: faster in bfloat16"},
                                      {"", at::kFloat, "measured: not faster in bfloat16"},
                                      {"", at::kFloat, "a reason"}});
  REQUIRE(record.size() == 2);
  const ProductUses& uses = record.at(*product_from("conv2d 4x6x6 6x4x3x3 s2 p1x1"));
  CHECK(uses.samples == 2);
  CHECK(uses.forward == 1);
  CHECK(uses.input_gradient == 1);
  CHECK(uses.weight_gradient == 1);
  CHECK(record.at(*product_from("linear 6 5x6")).weight_gradient == 0);
  y.sum().backward();
  CHECK(o.x.grad().scalar_type() == at::kFloat);
}

TEST_CASE("HalfOverflowsOnACpuAsItDoesElsewhere") {
  const Tensor x = torch::full({1, 1, 1, 1}, 300.0F, at::kHalf);
  CHECK(std::isinf(autocast_conv2d(x, x).item<float>()));
  CHECK(std::isinf(autocast_linear(x.flatten(1), x.flatten(1)).item<float>()));
}

TEST_CASE("AnIslandComputesInFloat32WhateverComesIn") {
  const Operands o = operands(at::kHalf);
  const AutocastDisabled exact("a reason");
  CHECK(conv(o).scalar_type() == at::kFloat);
  CHECK(autocast_linear(o.x.flatten(1), torch::ones({2, 144})).scalar_type() == at::kFloat);
  const Operands wide = operands(at::kDouble);
  CHECK(conv(wide).scalar_type() == at::kDouble);
}

TEST_CASE("AFilterInHalfOnACpuIsRoundedOnce") {
  torch::manual_seed(2);
  const Tensor x = torch::randn({2, 3, 8, 8}).to(at::kHalf);
  const Tensor f = setup_filter({1, 3, 3, 1});
  const Tensor y = upsample2d(x, f), exact = upsample2d(x.to(at::kFloat), f);
  CHECK(y.scalar_type() == at::kHalf);
  CHECK(torch::equal(y, exact.to(at::kHalf)));
}
