// SPDX-License-Identifier: Apache-2.0
#include "ops/modulation/modulation.h"

#include "core/torch.h"
#include "cuda_kernels/random_cases.h"
#include "ops/gpu/table_cuda.h"
#include "ops/modulation/modulation_gpu.h"
#include "support/catch.h"

using namespace gantrain;
using at::Tensor;

namespace {

Tensor for_pixels(const Tensor& t) { return t.unsqueeze(-1).unsqueeze(-1); }

double act_tolerance(at::ScalarType type) { return epsilon_of(type) + 32 * epsilon_of(at::kFloat); }

std::vector<int64_t> random_maps(Dice& dice) {
  const int64_t size = dice.one_of<int64_t>({1, 2, 3, 4, 7, 8, 16, 20});
  return {1 + dice.up_to(3),
          dice.one_of<int64_t>({1, 3, 8, 13, 24, 64, 300}),
          size,
          dice.coin() ? size : 1 + dice.up_to(20)};
}

ActTensors random_terms(Dice& dice, const std::vector<int64_t>& maps) {
  ActTensors t;
  if (dice.coin()) t.d = at::randn({maps[0], maps[1]});
  if (dice.coin()) {
    t.noise = at::randn({dice.coin() ? maps[0] : 1, maps[2], maps[3]});
    if (dice.coin()) t.strength = dice.coin() ? at::randn({maps[1]}) : at::randn({});
  }
  if (dice.coin()) t.bias = at::randn({maps[1]});
  return t;
}

// The last clamp is no number of a half type.
ActNumbers random_numbers(Dice& dice) {
  return {dice.one_of({1.0, 0.3}),
          dice.one_of({0.0, 0.2, 0.2, 1.0}),
          dice.one_of({1.0, 1.4142135}),
          dice.one_of({kInfinity, 0.75, 1.7013})};
}

Tensor random_like(Dice& dice, const std::vector<int64_t>& maps, at::ScalarType type) {
  return random_strides(dice, at::randn(maps).to(type));
}

// ActNumbers' formulas and their derivatives in float64. `magnitudes` says to sum magnitudes, which
// bounds the error that sums may have.
struct Formulas {
  ActTensors t;
  ActNumbers how;

  Tensor out(const Tensor& y) const {
    Tensor u = in_float64(y) * how.scale;
    if (t.d.defined()) u = u * for_pixels(in_float64(t.d));
    if (t.noise.defined()) u = u + strengths(t.strength) * in_float64(t.noise).unsqueeze(1);
    if (t.bias.defined()) u = u + in_float64(t.bias).reshape({-1, 1, 1});
    return (at::leaky_relu(u, how.alpha) * how.gain).clamp(-how.clamp, how.clamp);
  }
  Tensor slope(const Tensor& out) const {
    if (!out.defined()) return at::scalar_tensor(how.gain, at::kDouble);
    const Tensor o = in_float64(out);
    return how.gain * at::where(o > 0, 1.0, how.alpha) *
           (o.abs() < as_stored(how.clamp, out.scalar_type())).to(at::kDouble);
  }
  Tensor factor() const {
    return t.d.defined() ? for_pixels(in_float64(t.d)) * how.scale
                         : at::scalar_tensor(how.scale, at::kDouble);
  }
  static Tensor strengths(const Tensor& s) {
    return s.defined() ? in_float64(s).reshape({-1, 1, 1}) : at::ones({1, 1, 1}, at::kDouble);
  }
  Tensor by_grad(const ActPoint& at, const ActDerivatives& along) const {
    Tensor s = at::zeros(at.grad.sizes(), at::kDouble);
    if (along.y.defined()) s = s + in_float64(along.y) * factor();
    if (along.d.defined()) s = s + in_float64(at.y) * for_pixels(in_float64(along.d)) * how.scale;
    if (along.strength.defined())
      s = s + strengths(along.strength) * in_float64(t.noise).unsqueeze(1);
    if (along.bias.defined()) s = s + in_float64(along.bias).reshape({-1, 1, 1});
    return slope(at.out) * s;
  }
};

// The error of sums over these axes, as a share of the sum of magnitudes.
double error_of_sums(const Tensor& found, const Tensor& terms, at::IntArrayRef axes) {
  REQUIRE(found.scalar_type() == at::kFloat);
  const Tensor error = (in_float64(found) - terms.sum(axes)).abs();
  return (error / (terms.abs().sum(axes) + 1e-30)).max().item<double>();
}

void check_gradient(Dice& dice, const ActPoint& at, const Formulas& f, double allowed) {
  const ActWanted wanted{f.t.d.defined() && dice.coin(),
                         f.t.strength.defined() && dice.coin(),
                         f.t.bias.defined() && dice.coin()};
  ActPoint without_y = at;
  if (!wanted.d) without_y.y = Tensor();
  const ActDerivatives found = cuda_act_gradient(without_y, f.t, f.how, wanted);
  const Tensor du = in_float64(at.grad) * f.slope(at.out);
  REQUIRE(found.y.scalar_type() == at.grad.scalar_type());
  CHECK(share_of_error(found.y, du * f.factor()) < allowed);
  const double of_sums = 32 * epsilon_of(at::kFloat);
  REQUIRE(found.d.defined() == wanted.d);
  REQUIRE(found.strength.defined() == wanted.strength);
  REQUIRE(found.bias.defined() == wanted.bias);
  if (wanted.d)
    CHECK(error_of_sums(found.d, du * in_float64(at.y) * f.how.scale, {2, 3}) < of_sums);
  if (wanted.bias) CHECK(error_of_sums(found.bias, du, {0, 2, 3}) < of_sums);
  if (!wanted.strength) return;
  const Tensor terms = du * in_float64(f.t.noise).unsqueeze(1);
  REQUIRE(found.strength.sizes() == f.t.strength.sizes());
  if (f.t.strength.dim() == 0)
    CHECK(error_of_sums(found.strength, terms, {0, 1, 2, 3}) < of_sums);
  else
    CHECK(error_of_sums(found.strength, terms, {0, 2, 3}) < of_sums);
}

void check_second(Dice& dice, const ActPoint& at, const Formulas& f, double allowed) {
  const auto maps = at.grad.sizes().vec();
  ActDerivatives along;
  if (dice.coin()) along.y = random_like(dice, maps, at.grad.scalar_type());
  if (f.t.d.defined() && dice.coin()) along.d = at::randn({maps[0], maps[1]});
  if (f.t.strength.defined() && dice.coin()) along.strength = at::randn(f.t.strength.sizes());
  if (f.t.bias.defined() && dice.coin()) along.bias = at::randn({maps[1]});
  const FusedKernels::SecondWanted wanted{along.d.defined() && dice.coin(),
                                          f.t.d.defined() && along.y.defined() && dice.coin()};
  const auto [by_grad, by_y, by_d] = cuda_act_second(at, f.t, f.how, along, wanted);
  REQUIRE(by_grad.scalar_type() == at.grad.scalar_type());
  CHECK(share_of_error(by_grad, f.by_grad(at, along)) < allowed);
  const Tensor du = in_float64(at.grad) * f.slope(at.out);
  REQUIRE(by_y.defined() == wanted.y);
  REQUIRE(by_d.defined() == wanted.d);
  if (wanted.y)
    CHECK(share_of_error(by_y, du * for_pixels(in_float64(along.d)) * f.how.scale) < allowed);
  if (wanted.d)
    CHECK(error_of_sums(by_d, du * in_float64(along.y) * f.how.scale, {2, 3}) <
          32 * epsilon_of(at::kFloat));
}

BiasAct lrelu(std::optional<double> clamp) {
  BiasAct how;
  how.act = Activation::kLrelu;
  how.clamp = clamp;
  return how;
}

}  // namespace

TEST_CASE("EpilogueKernelsComputeTheFormulasAndTheirDerivatives") {
  Dice dice(8);
  for (int i = 0; i < 600; ++i) {
    const auto type = dice.one_of({at::kFloat, at::kHalf, at::kBFloat16});
    const auto maps = random_maps(dice);
    const Formulas f{random_terms(dice, maps), random_numbers(dice)};
    const Tensor y = random_like(dice, maps, type), grad = random_like(dice, maps, type);
    CAPTURE(i,
            type,
            maps,
            y.strides(),
            grad.strides(),
            f.t.d.defined(),
            f.t.noise.defined(),
            f.t.bias.defined(),
            f.how.scale,
            f.how.alpha,
            f.how.clamp);
    const Tensor out = cuda_act(y, f.t, f.how);
    REQUIRE(out.scalar_type() == type);
    CHECK(share_of_error(out, f.out(y)) < act_tolerance(type));
    CHECK(out.is_contiguous(y.suggest_memory_format()));
    const bool constant = f.how.alpha == 1 && std::isinf(f.how.clamp);
    const ActPoint at{grad, y, constant ? Tensor() : out};
    check_gradient(dice, at, f, act_tolerance(type));
    check_second(dice, at, f, act_tolerance(type));
  }
}

TEST_CASE("TheEpiloguesDerivativesThroughTheKernelsMatchTheReferenceInFloat64") {
  const WithCudaKernels with;
  Dice dice(9);
  for (int i = 0; i < 60; ++i) {
    const auto maps = random_maps(dice);
    const ActTensors t = random_terms(dice, maps);
    const BiasAct how = lrelu(dice.coin() ? std::optional<double>(0.9) : std::nullopt);
    Tensors inputs = {at::randn(maps)};
    if (dice.coin()) inputs[0] = inputs[0].contiguous(at::MemoryFormat::ChannelsLast);
    for (const Tensor& term : {t.d, t.strength, t.bias}) {
      if (term.defined()) inputs.push_back(term);
    }
    const TensorFunction op = [&](const Tensors& in) {
      ModulatedAct terms;
      size_t next = 1;
      if (t.d.defined()) terms.d = in[next++];
      if (t.noise.defined()) terms.noise = t.noise.unsqueeze(1);
      if (t.strength.defined()) terms.strength = in[next++];
      if (t.bias.defined()) terms.bias = in[next++];
      terms.scale = 0.7;
      return modulated_act(in[0], terms, how);
    };
    CAPTURE(i, maps, t.d.defined(), t.noise.defined(), t.strength.defined(), t.bias.defined());
    CHECK(derivatives_error(op, inputs) < 100 * epsilon_of(at::kFloat));
  }
}

TEST_CASE("DerivativesByTermsHaveTheTermsTypesWhateverTheMapsTypeIs") {
  const WithCudaKernels with;
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const auto type_of_terms : {at::kFloat, type}) {
      const auto leaf = [](const Tensor& t) { return t.detach().requires_grad_(true); };
      const Tensor x = leaf(at::randn({2, 8, 4, 4}).to(type)),
                   d = leaf(at::randn({2, 8}).to(type_of_terms)),
                   strength = leaf(at::randn({}).to(type_of_terms)),
                   bias = leaf(at::randn({8}).to(type_of_terms));
      const Tensor y = modulated_act(x, {d, at::randn({4, 4}), strength, bias}, lrelu(2));
      CHECK(y.grad_fn()->name().find("::ActFunction") != std::string::npos);
      CHECK(y.scalar_type() == type);
      const auto first = torch::autograd::grad(
          {y}, {x, d, strength, bias}, {at::ones_like(y)}, true, /*create_graph=*/true);
      CHECK(first[0].scalar_type() == type);
      for (size_t i = 1; i < 4; ++i) CHECK(first[i].scalar_type() == type_of_terms);
      const Tensor sum = first[0].to(at::kFloat).square().sum() + first[1].to(at::kFloat).sum();
      const auto second = torch::autograd::grad({sum}, {x, d}, {}, true, /*create_graph=*/true);
      CHECK(second[0].scalar_type() == type);
      CHECK(second[1].scalar_type() == type_of_terms);
    }
  }
}

TEST_CASE("OnlyFloat64AndTheReferenceAreComposedWithTheseKernels") {
  const WithCudaKernels with;
  const auto fused = [](at::ScalarType type) {
    const Tensor x = at::randn({2, 3, 4, 4}).to(type).requires_grad_(true);
    const Tensor y = modulated_act(x, {.bias = at::randn({3})}, lrelu({}));
    return y.grad_fn()->name().find("::ActFunction") != std::string::npos;
  };
  CHECK(fused(at::kFloat));
  CHECK(fused(at::kHalf));
  CHECK(fused(at::kBFloat16));
  CHECK_FALSE(fused(at::kDouble));
  const WithKernels reference(KernelSet::kRef);
  CHECK_FALSE(fused(at::kHalf));
}

TEST_CASE("AScaleAfterTheConvolutionIsNotFreeInFloat16") {
  const WithCudaKernels with;
  CHECK(scale_is_free(at::ones({1, 1, 1, 1})));
  CHECK(scale_is_free(at::ones({1, 1, 1, 1}, at::kBFloat16)));
  CHECK_FALSE(scale_is_free(at::ones({1, 1, 1, 1}, at::kHalf)));
}

TEST_CASE("AModulatedLayerInHalfPrecisionIsAsGoodThroughTheKernels") {
  Dice dice(10);
  const Tensor x = at::randn({2, 8, 8, 8}, at::kDouble).to(at::kHalf),
               weight = at::randn({16, 8, 3, 3}), styles = at::randn({2, 8}),
               noise = at::randn({8, 8}), bias = at::randn({16});
  const ModulatedConv how{.padding = 1, .fused = false};
  const auto layer = [&](const Tensor& of) {
    const auto type = of.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    return modulated_layer(
        of,
        weight.to(type),
        styles.to(type),
        {},
        how,
        {.noise = noise.to(type), .strength = at::ones({}, type), .bias = bias.to(type)},
        lrelu(256));
  };
  const Tensor expected = layer(x.to(at::kDouble));
  const double composed = share_of_error(layer(x), expected);
  const WithCudaKernels with;
  CHECK(share_of_error(layer(x), expected) <= composed);
}

TEST_CASE("EpilogueKernelsTakeEmptyBatches") {
  const Tensor y = at::empty({0, 3, 4, 4});
  const ActTensors t{at::empty({0, 3}), {}, {}, at::ones({3})};
  const ActNumbers how{1, 0.2, 1, 2};
  CHECK(cuda_act(y, t, how).sizes() == y.sizes());
  const ActDerivatives found = cuda_act_gradient({y, y, y}, t, how, {true, false, true});
  CHECK(found.d.sizes() == at::IntArrayRef({0, 3}));
  CHECK(found.bias.equal(at::zeros({3})));
  const auto [by_grad, by_y, by_d] =
      cuda_act_second({y, y, y}, t, how, {y, at::empty({0, 3}), {}, {}}, {true, true});
  CHECK(by_grad.sizes() == y.sizes());
  CHECK(by_y.sizes() == y.sizes());
  CHECK(by_d.sizes() == at::IntArrayRef({0, 3}));
}

TEST_CASE("TheEpilogueKeepsWhatIsNotANumberAndNoInfinityBecomesOne") {
  const Tensor y = at::tensor({std::nanf(""), INFINITY, -INFINITY, -1.F}).reshape({1, 1, 2, 2});
  const Tensor out = cuda_act(y, {}, {1, /*alpha=*/0, 1, 3});
  CHECK(at::allclose(out.flatten(), at::tensor({std::nanf(""), 3.F, 0.F, 0.F}), 0, 0, true));
}

TEST_CASE("CommonEpiloguesMoveSixteenBytesAtATime") {
  using cuda_kernels::ModulatedActTask;
  using cuda_kernels::Order;
  using cuda_kernels::Type;
  alignas(16) float room[8];
  const auto packs = [&](Type type, const cuda_kernels::Maps& maps, const float* noise) {
    ModulatedActTask task{};
    task.type = type;
    task.maps = maps;
    task.noise = noise;
    const bool forward = packed(task, room, room);
    CHECK(packed(task,
                 cuda_kernels::ModulatedGradientArrays{.grad = room, .out = room, .dy = room}) ==
          forward);
    CHECK(packed(task, cuda_kernels::ModulatedSecondArrays{.grad = room, .by_grad = room}) ==
          forward);
    CHECK_FALSE(packed(task, room + 1, room));
    return forward;
  };
  for (const Type type : {Type::kFloat32, Type::kFloat16, Type::kBFloat16}) {
    for (const int64_t size : {4, 8, 16, 32, 64, 128, 256, 512, 1024})
      CHECK(packs(type, {Order::kPlanes, 16, 64, size * size}, room));
    for (const int64_t channels : {32, 64, 128, 256, 512})
      CHECK(packs(type, {Order::kRows, 16, channels, 64 * 64}, room));
    CHECK(packs(type, {Order::kRows, 16, 3, 64 * 64}, nullptr));
    CHECK(packs(type, {Order::kRows, 16, 64, 25}, room + 1));
    CHECK_FALSE(packs(type, {Order::kRows, 16, 3, 64 * 64}, room));
    CHECK_FALSE(packs(type, {Order::kPlanes, 16, 64, 64 * 64}, room + 1));
  }
}

namespace {

std::vector<int64_t> random_weight(Dice& dice) {
  const int64_t k = dice.one_of<int64_t>({1, 3, 3, 3, 2, 5, 7, 8});
  return {dice.one_of<int64_t>({1, 3, 16, 40}), dice.one_of<int64_t>({1, 5, 8, 32}), k, k};
}

}  // namespace

TEST_CASE("SumsOfPlanesProductsMatchFloat64") {
  Dice dice(5);
  for (int i = 0; i < 200; ++i) {
    const auto type = dice.one_of({at::kFloat, at::kHalf, at::kBFloat16});
    const auto shape = random_weight(dice);
    const Tensor a = random_strides(dice, at::randn(shape).to(type)),
                 b = random_strides(dice, at::randn(shape).to(type));
    CAPTURE(i, shape, type, a.strides(), b.strides());
    const Tensor found = cuda_plane_products(a, b),
                 products = a.to(at::kDouble) * b.to(at::kDouble);
    REQUIRE(found.scalar_type() == type);
    const Tensor error = (found.to(at::kDouble) - products.sum({2, 3})).abs();
    const double allowed = epsilon_of(type) + 16 * epsilon_of(at::kFloat);
    CHECK((error / products.abs().sum({2, 3})).max().item<double>() < allowed);
  }
}

TEST_CASE("ScaledPlanesMatchFloat64") {
  Dice dice(6);
  for (int i = 0; i < 200; ++i) {
    const auto type = dice.one_of({at::kFloat, at::kHalf, at::kBFloat16});
    const auto shape = random_weight(dice);
    const Tensor w = random_strides(dice, at::randn(shape).to(type)),
                 by = at::randn({shape[0], shape[1]}).to(type);
    const double factor = dice.one_of({1.0, 2.0, -0.3});
    CAPTURE(i, shape, type, w.strides(), factor);
    const Tensor found = cuda_scaled_planes(w, by, factor);
    REQUIRE(found.scalar_type() == type);
    const Tensor expected =
        w.to(at::kDouble) * by.to(at::kDouble).reshape({shape[0], shape[1], 1, 1});
    CHECK(share_of_error(found, expected * factor) < epsilon_of(type) + 4 * epsilon_of(at::kFloat));
  }
}

TEST_CASE("EmptyPlanesHaveSumsOfNought") {
  CHECK(cuda_plane_products(at::empty({2, 0, 3, 3}), at::empty({2, 0, 3, 3})).numel() == 0);
  CHECK(cuda_plane_products(at::empty({2, 3, 0, 3}), at::empty({2, 3, 0, 3}))
            .equal(at::zeros({2, 3})));
  CHECK(cuda_scaled_planes(at::empty({0, 2, 3, 3}), at::empty({0, 2}), 2).numel() == 0);
}

TEST_CASE("SumsOfSquaresThroughTheKernelsHaveTheReferencesDerivatives") {
  const WithCudaKernels with;
  Dice dice(7);
  for (int i = 0; i < 20; ++i) {
    const TensorFunction op = [](const Tensors& in) { return square_sums(in[0]); };
    CHECK(derivatives_error(op, {at::randn(random_weight(dice))}) < 32 * epsilon_of(at::kFloat));
  }
}

TEST_CASE("CommonWeightsMoveSixteenBytesAtATime") {
  using cuda_kernels::Type;
  alignas(16) float room[8];
  for (const Type type : {Type::kFloat32, Type::kFloat16, Type::kBFloat16}) {
    for (const int64_t k : {1, 3, 5, 7}) {
      const cuda_kernels::WeightRows rows{type, 64 * 512, k * k};
      const void* shifted = room + 1;
      CHECK(packed(rows, cuda_kernels::RowProductsArrays{room, room, room}));
      CHECK(packed(rows, cuda_kernels::ScaledRowsArrays{room, room, room}));
      CHECK_FALSE(packed(rows, cuda_kernels::RowProductsArrays{shifted, room, room}));
      CHECK_FALSE(packed(rows, cuda_kernels::ScaledRowsArrays{shifted, room, room}));
    }
  }
}
