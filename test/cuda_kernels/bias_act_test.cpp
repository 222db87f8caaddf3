// SPDX-License-Identifier: Apache-2.0
#include "ops/bias_act/bias_act.h"

#include <array>

#include "core/torch.h"
#include "cuda_kernels/random_cases.h"
#include "ops/bias_act/bias_act_gpu.h"
#include "ops/gpu/table_cuda.h"
#include "support/catch.h"

using namespace gantrain;
using at::Tensor;

namespace {

// Those that have kernels.
constexpr std::array kTwoLines = {Activation::kLinear, Activation::kRelu, Activation::kLrelu};

// The error of one rounding to the type and of some in the type that is computed in.
double tolerance(at::ScalarType type) {
  return epsilon_of(type) + 64 * epsilon_of(type == at::kDouble ? type : at::kFloat);
}

// The last clamp is no number of a half type.
BiasActNumbers random_numbers(Dice& dice, int64_t axes) {
  return {kTwoLines[dice.up_to(kTwoLines.size() - 1)],
          dice.up_to(axes - 1),
          dice.one_of({0.0, 0.2, 1.5}),
          dice.one_of({1.0, 1.4142135, -0.7}),
          dice.one_of({kInfinity, kInfinity, 0.75, 1.7013})};
}

std::vector<int64_t> random_shape(Dice& dice) {
  const auto channels = [&] { return dice.one_of<int64_t>({1, 2, 3, 4, 8, 13, 24, 64, 300}); };
  switch (dice.up_to(4)) {
    case 0:
      return {1 + dice.up_to(40), channels()};
    case 1:
      return {1 + dice.up_to(3), channels(), 1 + dice.up_to(30)};
    case 2:
      return {1 + dice.up_to(3), channels(), 1 + dice.up_to(8), 1 + dice.up_to(8)};
    default: {
      const int64_t size = dice.one_of<int64_t>({1, 4, 8, 16, 20});
      return {1 + dice.up_to(3), channels(), size, size};
    }
  }
}

Tensor placed(Dice& dice, const Tensor& x) {
  if (x.dim() == 4) return random_strides(dice, x);
  return dice.coin() ? x : x.transpose(0, 1).contiguous().transpose(0, 1);
}

Tensor random_tensor(Dice& dice, const std::vector<int64_t>& shape, at::ScalarType type) {
  return placed(dice, (2 * at::randn(shape, at::kDouble)).to(type));
}

// The error of db, as a share of what it can be: of the sum of dx's magnitudes. dx was rounded on
// its own, in float16 to a whole number of 2^-24 where it is below 2^-14.
double error_of_sums(const BiasActGradients& found, int64_t dim) {
  const Tensor dx = in_float64(found.dx);
  const double least = found.dx.scalar_type() == at::kHalf ? 0x1p-14 : 1e-30;
  const Tensor most = summed_to_bias(dx.abs().clamp_min(least), dim);
  return ((in_float64(found.db) - summed_to_bias(dx, dim)).abs() / most).max().item<double>();
}

}  // namespace

TEST_CASE("BiasActKernelsComputeWhatTheComposedOperatorsDo") {
  Dice dice(3);
  for (int i = 0; i < 600; ++i) {
    const auto type = dice.one_of({at::kFloat, at::kHalf, at::kBFloat16, at::kDouble});
    const auto shape = random_shape(dice);
    const BiasActNumbers how = random_numbers(dice, static_cast<int64_t>(shape.size()));
    const Tensor x = random_tensor(dice, shape, type), dy = random_tensor(dice, shape, type);
    const Tensor b = dice.coin() ? at::randn({shape[how.dim]}, at::kDouble).to(type) : Tensor();
    CAPTURE(
        i, type, shape, x.strides(), how.dim, names(how.act)[int(how.act)], how.gain, how.clamp);
    const double allowed = tolerance(type);

    const Tensor y = cuda_bias_act(x, b, how);
    REQUIRE(y.scalar_type() == type);
    CHECK(share_of_error(y, kComposedKernels.bias_act(in_float64(x), in_float64(b), how)) <
          allowed);
    if (x.is_non_overlapping_and_dense()) CHECK(y.strides() == at::empty_like(x).strides());

    const Tensor saved = how.constant_slope() ? Tensor() : y;
    const BiasActGradients found = cuda_bias_act_gradient(dy, saved, how, dice.coin());
    BiasActNumbers stored = how;  // y was
    stored.clamp = as_stored(how.clamp, type);
    const Tensor dx =
        kComposedKernels.bias_act_gradient(in_float64(dy), in_float64(saved), stored, false).dx;
    CHECK(share_of_error(found.dx, dx) < allowed);
    REQUIRE(found.dx.scalar_type() == type);
    if (found.db.defined()) {
      REQUIRE(found.db.scalar_type() == type);
      CHECK(error_of_sums(found, how.dim) < allowed + epsilon_of(type));
    }
  }
}

TEST_CASE("BiasActsDerivativesThroughTheKernelsMatchTheReferenceInFloat64") {
  const WithCudaKernels with;
  Dice dice(4);
  for (int i = 0; i < 60; ++i) {
    const auto type = i % 2 == 0 ? at::kFloat : at::kDouble;
    const std::vector<int64_t> shape = {2, dice.one_of<int64_t>({3, 8}), 4, 1 + dice.up_to(4)};
    BiasAct how{kTwoLines[i / 2 % kTwoLines.size()], 1, 0.3, {}, {}};
    if (dice.coin()) how.clamp = 1.25;
    CAPTURE(i, names(how.act)[int(how.act)], shape, type);
    const TensorFunction op = [&](const Tensors& in) { return bias_act(in[0], in[1], how); };
    Tensor x = at::randn(shape, at::kDouble).to(type);
    if (dice.coin()) x = x.contiguous(at::MemoryFormat::ChannelsLast);
    const double error = derivatives_error(op, {x, at::randn({shape[1]}, at::kDouble).to(type)});
    CHECK(error < 100 * epsilon_of(type));
  }
}

TEST_CASE("ManyPartsOfAChannelAddUp") {
  for (const auto type : {at::kFloat, at::kHalf}) {
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{1, 2, 3000, 1500}, {2, 24, 700, 400}, {3, 3, 1000, 1000}}) {
      for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
        CAPTURE(shape, type, format);
        const Tensor dy = at::randn(shape).to(type).contiguous(format);
        const BiasActNumbers how{Activation::kLinear, 1, 0, 0.5, kInfinity};
        const BiasActGradients found = cuda_bias_act_gradient(dy, {}, how, true);
        CHECK(found.dx.equal(dy * 0.5));
        CHECK(error_of_sums(found, 1) < tolerance(type));
      }
    }
  }
}

TEST_CASE("TheGradientOfALinearActivationIsNotCopied") {
  const Tensor dy = at::randn({2, 3, 4, 4});
  const BiasActNumbers how{Activation::kLinear, 1, 0, 1, kInfinity};
  const BiasActGradients found = cuda_bias_act_gradient(dy, {}, how, true);
  CHECK(found.dx.is_same(dy));
  CHECK(error_of_sums(found, 1) < tolerance(at::kFloat));
  CHECK(cuda_bias_act_gradient(dy, {}, how, false).dx.is_same(dy));
}

TEST_CASE("BiasActKernelsTakeEmptyTensors") {
  const BiasActNumbers how{Activation::kLrelu, 1, 0.2, 1, 2};
  const Tensor x = at::empty({0, 3, 4, 4}), b = at::ones({3});
  CHECK(cuda_bias_act(x, b, how).sizes() == x.sizes());
  const BiasActGradients found = cuda_bias_act_gradient(x, x, how, true);
  CHECK(found.dx.sizes() == x.sizes());
  CHECK(found.db.equal(at::zeros({3})));
}

TEST_CASE("WhatIsNotANumberStaysSoAndInfinitiesAreClamped") {
  const Tensor x = at::tensor({std::nanf(""), INFINITY, -INFINITY, -1.F}).reshape({1, 1, 2, 2});
  for (const Activation act : kTwoLines) {
    for (const double clamp : {kInfinity, 3.0}) {
      const BiasActNumbers how{act, 1, 0.2, 1, clamp};
      const Tensor y = cuda_bias_act(x, {}, how), expected = kComposedKernels.bias_act(x, {}, how);
      CAPTURE(names(act)[static_cast<size_t>(act)], clamp);
      CHECK(at::allclose(y, expected, 1e-6, 0, /*equal_nan=*/true));
    }
  }
}

TEST_CASE("GradientsThatOverflowedAreHiddenOnlyByTheClamp") {
  const Tensor dy = at::full({1, 1, 1, 4}, INFINITY),
               y = at::tensor({0.F, -1.F, 1.F, 3.F}).reshape({1, 1, 1, 4});
  for (const Activation act : {Activation::kRelu, Activation::kLrelu}) {
    const BiasActNumbers how{act, 1, 0.2, 1, 3};
    const Tensor found = cuda_bias_act_gradient(dy, y, how, false).dx,
                 expected = kComposedKernels.bias_act_gradient(dy, y, how, false).dx;
    CHECK(at::allclose(found, expected, 0, 0, /*equal_nan=*/true));
    CHECK(found[0][0][0][3].item<float>() == 0);
  }
}

TEST_CASE("CommonBiasActsMoveSixteenBytesAtATime") {
  using cuda_kernels::BiasActTask;
  using cuda_kernels::Maps;
  using cuda_kernels::Order;
  using cuda_kernels::Type;
  alignas(16) float room[8];
  const auto packs = [&](Type type, const Maps& maps, int64_t offset = 0) {
    const BiasActTask task{type, maps, Activation::kLrelu, .2, 1, kInfinity, nullptr};
    const void* at = room + offset;
    const bool forward = cuda_kernels::packed(task, at, room);
    CHECK(packed(task, cuda_kernels::BiasActGradientArrays{at, room, room, nullptr}) == forward);
    return forward;
  };
  for (const Type type : {Type::kFloat32, Type::kFloat16, Type::kBFloat16}) {
    for (const int64_t size : {4, 8, 16, 32, 64, 128, 256, 512, 1024})
      CHECK(packs(type, {Order::kPlanes, 16, 3, size * size}));
    for (const int64_t channels : {3, 6, 32, 64, 128, 256, 512, 1000})
      CHECK(packs(type, {Order::kRows, 1, channels, 16 * 4 * 4}));
    CHECK_FALSE(packs(type, {Order::kPlanes, 16, 3, 25}));
    CHECK_FALSE(packs(type, {Order::kRows, 1, 3, 25}));
    CHECK_FALSE(packs(type, {Order::kPlanes, 16, 3, 64}, /*offset=*/1));
  }
}
