// SPDX-License-Identifier: Apache-2.0
// The epilogue that also multiplies by the next layer's styles, and products in the place of a
// modulated convolution of one pixel.
#include "core/torch.h"
#include "cuda_kernels/random_cases.h"
#include "ops/gpu/table_cuda.h"
#include "ops/modulation/modulation.h"
#include "ops/modulation/modulation_gpu.h"
#include "support/catch.h"

using namespace gantrain;
using at::Tensor;

namespace {

Tensor each_pixel(const Tensor& t) { return t.to(at::kDouble).unsqueeze(-1).unsqueeze(-1); }

BiasAct leaky(std::optional<double> clamp) {
  BiasAct how;
  how.act = Activation::kLrelu;
  how.clamp = clamp;
  return how;
}

struct ScaledCase {
  std::vector<int64_t> maps;
  ActTensors t;
  ActNumbers how;
  Tensor y, then;
};

// The last clamp is no number of a half type.
ScaledCase random_scaled_case(Dice& dice, at::ScalarType type) {
  ScaledCase c;
  const int64_t size = dice.one_of<int64_t>({1, 2, 3, 4, 7, 8, 16, 20});
  c.maps = {1 + dice.up_to(3), dice.one_of<int64_t>({1, 3, 8, 13, 64, 300}), size, size};
  const auto& m = c.maps;
  if (dice.coin()) c.t.d = at::rand({m[0], m[1]}) + 0.2;
  if (dice.coin()) c.t.noise = at::randn({dice.coin() ? m[0] : 1, m[2], m[3]});
  if (c.t.noise.defined() && dice.coin())
    c.t.strength = dice.coin() ? at::randn({m[1]}) : at::randn({});
  if (dice.coin()) c.t.bias = at::randn({m[1]});
  c.how = {dice.one_of({1.0, 0.3}),
           dice.one_of({0.2, 1.0}),
           dice.one_of({1.0, 1.4142135}),
           dice.one_of({kInfinity, 0.75, 1.7013})};
  c.y = random_strides(dice, at::randn(m).to(type));
  c.then = at::randn({m[0], m[1]});
  return c;
}

double magnitude_error(const Tensor& found, const Tensor& terms, at::IntArrayRef axes) {
  const Tensor error = (found.to(at::kDouble) - terms.sum(axes)).abs();
  return (error / (terms.abs().sum(axes) + 1e-30)).max().item<double>();
}

void check_gradient(Dice& dice, const ScaledCase& c, const Tensor& out) {
  const auto type = c.y.scalar_type();
  Tensor grad = random_strides(dice, at::randn(c.maps).to(type)),
         grad_scaled = random_strides(dice, at::randn(c.maps).to(type));
  const int64_t absent = dice.up_to(2);
  if (absent == 1) grad = Tensor();
  if (absent == 2) grad_scaled = Tensor();
  const ActWanted wanted{c.t.d.defined() && dice.coin(),
                         c.t.strength.defined() && dice.coin(),
                         c.t.bias.defined() && dice.coin()};
  const bool wants_then = dice.coin();
  const ScaledActDerivatives found =
      cuda_act_scaled_gradient({grad, grad_scaled, c.y}, c.t, c.how, c.then, wanted, wants_then);
  const Tensor o = out.to(at::kDouble);
  const Tensor slope = c.how.gain * at::where(o > 0, 1.0, c.how.alpha) *
                       (o.abs() < as_stored(c.how.clamp, type)).to(at::kDouble);
  const Tensor zeros = at::zeros(c.maps, at::kDouble);
  const Tensor by_scaled = grad_scaled.defined() ? grad_scaled.to(at::kDouble) : zeros;
  const Tensor du =
      slope * ((grad.defined() ? grad.to(at::kDouble) : zeros) + by_scaled * each_pixel(c.then));
  const Tensor factor = c.t.d.defined() ? each_pixel(c.t.d) * c.how.scale
                                        : at::scalar_tensor(c.how.scale, at::kDouble);
  REQUIRE(found.terms.y.scalar_type() == type);
  CHECK(found.terms.y.is_contiguous(c.y.suggest_memory_format()));
  CHECK(share_of_error(found.terms.y, du * factor) <
        epsilon_of(type) + 32 * epsilon_of(at::kFloat));
  const double of_sums = 32 * epsilon_of(at::kFloat);
  REQUIRE(found.terms.d.defined() == wanted.d);
  REQUIRE(found.terms.strength.defined() == wanted.strength);
  REQUIRE(found.terms.bias.defined() == wanted.bias);
  REQUIRE(found.then.defined() == wants_then);
  if (wanted.d)
    CHECK(magnitude_error(found.terms.d, du * in_float64(c.y) * c.how.scale, {2, 3}) < of_sums);
  if (wanted.bias) CHECK(magnitude_error(found.terms.bias, du, {0, 2, 3}) < of_sums);
  if (wants_then) CHECK(magnitude_error(found.then, by_scaled * o, {2, 3}) < of_sums);
  if (!wanted.strength) return;
  const Tensor of_noise = du * in_float64(c.t.noise).unsqueeze(1);
  const std::vector<int64_t> all = {0, 1, 2, 3}, but_channels = {0, 2, 3};
  REQUIRE(found.terms.strength.sizes() == c.t.strength.sizes());
  CHECK(magnitude_error(found.terms.strength,
                        of_noise,
                        c.t.strength.dim() == 0 ? all : but_channels) < of_sums);
}

}  // namespace

TEST_CASE("TheEpilogueForTheNextLayerIsTheEpilogueTimesItsStylesAndSoAreItsDerivatives") {
  Dice dice(21);
  for (int i = 0; i < 400; ++i) {
    const auto type = dice.one_of({at::kFloat, at::kHalf, at::kBFloat16});
    const ScaledCase c = random_scaled_case(dice, type);
    CAPTURE(i, type, c.maps, c.y.strides(), c.t.d.defined(), c.t.noise.defined(), c.how.clamp);
    const Tensor expected = cuda_act(c.y, c.t, c.how);
    const auto [out, scaled] = cuda_act_scaled(c.y, c.t, c.how, c.then, /*both=*/true);
    const auto [none, alone] = cuda_act_scaled(c.y, c.t, c.how, c.then, /*both=*/false);
    CHECK(at::equal(out, expected));
    CHECK_FALSE(none.defined());
    CHECK(at::equal(scaled, alone));
    REQUIRE(scaled.scalar_type() == type);
    CHECK(scaled.is_contiguous(c.y.suggest_memory_format()));
    CHECK(at::equal(scaled, cuda_act(expected, {.d = c.then}, {1, 1, 1, kInfinity})));
    check_gradient(dice, c, expected);
  }
}

TEST_CASE("TheEpilogueForTheNextLayerTakesEmptyBatches") {
  const Tensor y = at::empty({0, 3, 4, 4}), then = at::empty({0, 3});
  const ActTensors t{then, {}, {}, at::ones({3})};
  const ActNumbers how{1, 0.2, 1, 2};
  CHECK(std::get<1>(cuda_act_scaled(y, t, how, then, false)).sizes() == y.sizes());
  const ScaledActDerivatives found =
      cuda_act_scaled_gradient({y, y, y}, t, how, then, {true, false, true}, true);
  CHECK(found.terms.d.sizes() == at::IntArrayRef({0, 3}));
  CHECK(found.terms.bias.equal(at::zeros({3})));
  CHECK(found.then.sizes() == at::IntArrayRef({0, 3}));
}

TEST_CASE("CommonEpiloguesForTheNextLayerMoveSixteenBytesAtATime") {
  using namespace cuda_kernels;
  alignas(16) float room[8];
  for (const Type type : {Type::kFloat32, Type::kFloat16, Type::kBFloat16}) {
    for (const int64_t channels : {32, 64, 128, 256, 512}) {
      ModulatedActTask task{};
      task.type = type;
      task.maps = {Order::kRows, 16, channels, 64 * 64};
      task.noise = room + 1;
      CHECK(packed(task, ScaledActArrays{.y = room, .out = room, .scaled = room}));
      CHECK_FALSE(packed(task, ScaledActArrays{.y = room, .scaled = room + 1}));
      CHECK(packed(task, ScaledGradientArrays{.grad = room, .y = room, .dy = room}));
      CHECK_FALSE(
          packed(task, ScaledGradientArrays{.grad_scaled = room + 1, .y = room, .dy = room}));
    }
  }
}

namespace {

// Two modulated layers after each other, where the first one's result is also an output.
Tensor two_layers(const Tensors& in,
                  const Tensor& noise,
                  std::optional<double> clamp,
                  bool keep_x) {
  const Tensor &x = in[0], &w0 = in[1], &w1 = in[2], &s0 = in[3], &s1 = in[4], &strength = in[5],
               &bias = in[6];
  const ModulatedConv how{.padding = 1, .fused = false};
  const ModulatedAct after{.noise = noise, .strength = strength, .bias = bias};
  const StyledMaps between = modulated_layer(
      {x, {}, s0}, w0, {}, how, after, leaky(clamp), NextConv{s1, x.scalar_type(), keep_x});
  const StyledMaps last = modulated_layer(between, w1, {}, how, {}, leaky(clamp), NextConv{});
  return keep_x ? at::cat({between.x, last.x}, 1) : last.x;
}

Tensors inputs_of_two_layers() {
  return {at::randn({2, 8, 6, 5}),
          at::randn({16, 8, 3, 3}),
          at::randn({8, 16, 3, 3}),
          at::randn({2, 8}) + 1,
          at::randn({2, 16}) + 1,
          at::randn({}),
          at::randn({16})};
}

}  // namespace

TEST_CASE("ALayerWhoseStylesCameInTheEpilogueBeforeItHasTheReferencesDerivatives") {
  Dice dice(22);
  for (int i = 0; i < 12; ++i) {
    Tensors inputs = inputs_of_two_layers();
    if (dice.coin()) inputs[0] = inputs[0].contiguous(at::MemoryFormat::ChannelsLast);
    const Tensor noise = dice.coin() ? at::randn({6, 5}) : at::randn({2, 1, 6, 5});
    const auto clamp = dice.coin() ? std::optional<double>(1.3) : std::nullopt;
    const bool keep_x = dice.coin();
    CAPTURE(i, keep_x, clamp.has_value());
    const WithCudaKernels with;
    CHECK(derivatives_error([&](const Tensors& in) { return two_layers(in, noise, clamp, keep_x); },
                            inputs) < 200 * epsilon_of(at::kFloat));
  }
}

TEST_CASE("LayersInFloat16AreNoWorseForStylesInTheEpilogueAndAConstantRange") {
  torch::manual_seed(23);
  Tensors inputs = inputs_of_two_layers();
  inputs[1] *= 300;
  inputs[3] *= 500;
  const Tensor noise = at::randn({6, 5});
  const auto in_type = [&](at::ScalarType maps, at::ScalarType rest) {
    Tensors all;
    for (size_t i = 0; i < inputs.size(); ++i) all.push_back(inputs[i].to(i == 0 ? maps : rest));
    Tensors along;
    for (const Tensor& x : all) along.push_back(at::ones(x.sizes()));
    return differentiate([&](const Tensors& in) { return two_layers(in, noise, 256, true); },
                         all,
                         at::ones({2, 24, 6, 5}),
                         along);
  };
  const Differentiated expected = in_type(at::kDouble, at::kDouble);
  const WithCudaKernels with;
  const Differentiated found = in_type(at::kHalf, at::kFloat);
  CHECK(share_of_error(found.y, expected.y) < 2 * epsilon_of(at::kHalf));
  for (size_t i = 0; i < found.first.size(); ++i) {
    CAPTURE(i);
    CHECK(share_of_error(found.first[i], expected.first[i]) < 4e-3);
    CHECK(share_of_error(found.with_graph[i], expected.first[i]) < 4e-3);
  }
}

TEST_CASE("ProductsOfSamplesHaveTheDerivativesOfTheProduct") {
  const TensorFunction op = [](const Tensors& in) {
    if (in[0].scalar_type() == at::kFloat) return sample_products(in[0], in[1]);
    return at::matmul(in[1], in[0].flatten(2)).unflatten(2, in[0].sizes().slice(2));
  };
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const Tensors in = {at::randn({2, 5, 3, 4}).contiguous(format), at::randn({2, 3, 5})};
    CHECK(derivatives_error(op, in) < 16 * epsilon_of(at::kFloat));
    const Tensor x = in[0].detach().requires_grad_(true);
    const Tensor y = sample_products(x, in[1]);
    CHECK(y.is_contiguous());
    const Tensor dx = torch::autograd::grad({y}, {x}, {at::ones_like(y)})[0];
    CHECK(dx.is_contiguous(format));
  }
}

TEST_CASE("AConvolutionOfOnePixelIsAProductWithTheseKernels") {
  Dice dice(24);
  const TensorFunction op = [](const Tensors& in) {
    return modulated_layer(in[0], in[1], in[2], {}, {.demodulate = false}, {.bias = in[3]}, {});
  };
  const WithCudaKernels with;
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const Tensors in = {at::randn({2, 16, 4, 6}).contiguous(format),
                        at::randn({3, 16, 1, 1}),
                        at::randn({2, 16}),
                        at::randn({3})};
    CHECK(op(in).is_contiguous());
    CHECK(derivatives_error(op, in) < 32 * epsilon_of(at::kFloat));
  }
}
