// SPDX-License-Identifier: Apache-2.0
#include "ops/resample.h"

#include <ATen/Version.h>

#include <functional>

#include "support/catch.h"
#include "support/gradient_checks.h"
#include "support/tensor_checks.h"
#include "util/size.h"

using namespace gantrain;

namespace {

at::Tensor noise(at::IntArrayRef shape) { return torch::randn(shape, at::kDouble); }

// Gradients of all tensors of sum(grad(sum(f^2))^2): what a gradient penalty takes.
std::vector<at::Tensor> second_gradients(
    const std::function<at::Tensor(const std::vector<at::Tensor>&)>& f,
    std::vector<at::Tensor> at) {
  for (at::Tensor& t : at) t = t.detach().requires_grad_(true);
  const at::Tensor first =
      torch::autograd::grad({f(at).square().sum()}, {at[0]}, {}, true, true)[0];
  return torch::autograd::grad({first.square().sum()}, at);
}

}  // namespace

// On other devices it is a product of matrices, and in float64, which has the places of float32.
TEST_CASE("ResizingIsTorchsBilinearInFloat32") {
  // Without AVX2 torch rounds a place twice.
  const double tolerance = at::get_cpu_capability() == "DEFAULT" ? 5e-6 : 3e-7;
  for (const auto& [from, to] : {std::pair<Size, Size>{{7, 5}, {14, 10}},
                                 {{7, 5}, {16, 16}},
                                 {{7, 5}, {7, 5}},
                                 {{7, 5}, {9, 3}},
                                 {{64, 64}, {224, 224}},
                                 {{56, 28}, {112, 56}}}) {
    const at::Tensor x = torch::randn({2, 3, from.height, from.width});
    for (const Corners corners : {Corners::kOfPixels, Corners::kMiddles}) {
      CAPTURE(to_text(from), to_text(to));
      const auto resized = [&](const at::Tensor& t) {
        return resized_bilinear(t, to.height, to.width, corners);
      };
      const at::Tensor expected =
          at::upsample_bilinear2d(x, {to.height, to.width}, corners == Corners::kMiddles);
      CHECK(torch::equal(resized(x), expected));
      CHECK(scaled_error(resized(x.to(at::kDouble)), expected) < tolerance);
      CHECK(scaled_error(resized_by_products(x, to.height, to.width, corners), expected) <
            tolerance);
    }
  }
}

TEST_CASE("UpRepeatsPixelsAndDownIsItsInverse") {
  const at::Tensor x = noise({2, 3, 4, 6});
  const at::Tensor y = nearest_up(x);
  CHECK(y.sizes() == at::IntArrayRef({2, 3, 8, 12}));
  CHECK(torch::equal(y, x.repeat_interleave(2, 2).repeat_interleave(2, 3)));
  CHECK(torch::allclose(box_down(y), x));
  CHECK(box_down(torch::arange(4.0).reshape({1, 1, 2, 2})).item<float>() == 1.5f);
}

TEST_CASE("BlurIsTheBinomialFilterWithZerosOutside") {
  at::Tensor point = torch::zeros({1, 1, 5, 5}, at::kDouble);
  point[0][0][2][2] = 16;
  const at::Tensor row = torch::tensor({0., 1., 2., 1., 0.}, at::kDouble);
  CHECK(torch::allclose(blur(point)[0][0], torch::outer(row, row)));
  const at::Tensor flat = blur(torch::ones({1, 1, 4, 4}, at::kDouble))[0][0];
  CHECK(flat[1][1].item<double>() == Approx(1));
  CHECK(flat[0][1].item<double>() == Approx(0.75));
  CHECK(flat[0][0].item<double>() == Approx(0.5625));
}

TEST_CASE("TheConvolutionsAreTheirTwoStepsAtEverySize") {
  const at::Tensor w = noise({5, 3, 3, 3});
  for (const int64_t side : {4, 8, 16, 32, 64}) {
    CAPTURE(side);
    const at::Tensor x = noise({2, 3, side, side});
    CHECK(torch::allclose(conv2d_up(x, w), torch::conv2d(nearest_up(x), w, {}, 1, 1)));
    CHECK(torch::allclose(conv2d_down(x, w), box_down(torch::conv2d(x, w, {}, 1, 1))));
  }
}

TEST_CASE("SecondDerivativesAreThoseOfTheTwoSteps") {
  const auto equal = [](const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    REQUIRE(a.size() == b.size());
    for (size_t i = 0; i < a.size(); ++i) CHECK(scaled_error(a[i], b[i]) < 1e-12);
  };
  const at::Tensor w = noise({3, 2, 3, 3});
  for (const int64_t side : {8, 32}) {
    const std::vector<at::Tensor> down = {noise({2, 2, side, side}), w};
    equal(
        second_gradients([](const auto& t) { return conv2d_down(t[0], t[1]); }, down),
        second_gradients(
            [](const auto& t) { return torch::avg_pool2d(torch::conv2d(t[0], t[1], {}, 1, 1), 2); },
            down));
    const std::vector<at::Tensor> up = {noise({2, 2, side / 2, side / 2}), w};
    equal(second_gradients([](const auto& t) { return conv2d_up(t[0], t[1]); }, up),
          second_gradients(
              [](const auto& t) {
                return torch::conv2d(
                    t[0].repeat_interleave(2, 2).repeat_interleave(2, 3), t[1], {}, 1, 1);
              },
              up));
    const at::Tensor row = torch::tensor({.25, .5, .25}, at::kDouble);
    const at::Tensor binomial = torch::outer(row, row).expand({2, 1, 3, 3});
    equal(second_gradients([](const auto& t) { return blur(t[0]); }, {down[0]}),
          second_gradients(
              [&](const auto& t) { return torch::conv2d(t[0], binomial, {}, 1, 1, 1, 2); },
              {down[0]}));
  }
}

TEST_CASE("RealsFadeFromTheirCoarseSelvesToThemselves") {
  const at::Tensor x = noise({2, 3, 8, 8});
  const at::Tensor coarse = nearest_up(box_down(x));
  CHECK(torch::equal(fade_reals(x, 1), x));
  CHECK(torch::allclose(fade_reals(x, 0), coarse));
  CHECK(torch::allclose(fade_reals(x, 0.3), 0.3 * x + 0.7 * coarse));
}

namespace {

// Reaches over the edges.
at::Tensor some_grid(int64_t n, int64_t h, int64_t w) {
  return torch::rand({n, h, w, 2}, at::kDouble) * 2.6 - 1.3;
}

}  // namespace

TEST_CASE("GridSampleEqualsLibTorchs") {
  const at::Tensor grid = some_grid(2, 6, 3);
  const at::Tensor x = torch::randn({2, 3, 5, 7}, at::kDouble).requires_grad_(true);
  const at::Tensor y = grid_sample(x, grid), reference = at::grid_sampler_2d(x, grid, 0, 0, false);
  CHECK(at::equal(y, reference));
  const at::Tensor dy = torch::randn_like(y);
  const auto gradient = [&](const at::Tensor& of) {
    return torch::autograd::grad({of}, {x}, {dy})[0];
  };
  CHECK(at::equal(gradient(y), gradient(reference)));
}

TEST_CASE("GridSamplesDerivativesMatchDifferences") {
  for (const int64_t channels : {1, 3}) {
    const at::Tensor grid = some_grid(2, 4, 5);
    const auto y = [&](const Tensors& in) { return grid_sample(in[0], grid); };
    const Tensors x = {torch::randn({2, channels, 5, 3}, at::kDouble)};
    CHECK(gradient_error(y, x) < kGradientTolerance);
    CHECK(second_gradient_error(y, x) < kGradientTolerance);
    // A penalty on the gradient of something curved, as R1 is.
    const auto curved = [&](const Tensors& in) { return grid_sample(in[0], grid).tanh(); };
    CHECK(second_gradient_error(curved, x) < kGradientTolerance);
  }
}

TEST_CASE("GridSampleKeepsHalfTypes") {
  const at::Tensor grid = some_grid(1, 4, 4), x = torch::randn({1, 2, 6, 6});
  const at::Tensor reference = grid_sample(x, grid);
  CHECK(reference.scalar_type() == at::kFloat);
  for (const auto& [type, tolerance] :
       {std::pair{at::kHalf, 2e-3}, std::pair{at::kBFloat16, 2e-2}}) {
    const at::Tensor leaf = x.to(type).requires_grad_(true);
    const at::Tensor y = grid_sample(leaf, grid);
    CHECK(y.scalar_type() == type);
    CHECK(scaled_error(y.detach(), reference) < tolerance);
    y.sum().backward();
    CHECK(leaf.grad().scalar_type() == type);
  }
}

TEST_CASE("TheGridGetsNoGradient") {
  const at::Tensor grid = some_grid(1, 2, 2).requires_grad_(true);
  CHECK_FALSE(grid_sample(torch::randn({1, 1, 4, 4}, at::kDouble), grid).requires_grad());
}

namespace {

// LibTorch's setting, while it lives.
struct Deterministic {
  Deterministic() { at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false); }
  ~Deterministic() { at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false); }
};

}  // namespace

TEST_CASE("InAFixedOrderTheDerivativesOfSamplingAreTheSame") {
  const at::Tensor grid = some_grid(2, 9, 8);
  const at::Tensor x = torch::randn({2, 3, 5, 7}, at::kDouble).requires_grad_(true);
  const at::Tensor dy = torch::randn({2, 3, 9, 8}, at::kDouble);
  const auto gradient = [&](const at::Tensor& y) {
    return torch::autograd::grad({y}, {x}, {dy})[0];
  };
  const at::Tensor expected = gradient(at::grid_sampler_2d(x, grid, 0, 0, false));
  const Deterministic in_order;
  CHECK(at::allclose(gradient(grid_sample(x, grid)), expected, 1e-12, 1e-12));
  const auto y = [&](const Tensors& in) { return grid_sample(in[0], grid).tanh(); };
  CHECK(second_gradient_error(y, {torch::randn({2, 1, 5, 3}, at::kDouble)}) < kGradientTolerance);
}

TEST_CASE("MirroredIsAReflectionInEitherOrder") {
  const at::Tensor x = torch::randn({2, 3, 5, 7}, at::kDouble).requires_grad_(true);
  for (const Padding2d& p : {Padding2d{6, 2, 0, 4}, Padding2d{0, 0, 3, 0}}) {
    const auto results = [&] {
      const at::Tensor y = mirrored(x, p);
      const at::Tensor weights = torch::arange(y.numel(), at::kDouble).view(y.sizes());
      return std::pair(y.detach(), torch::autograd::grad({(y * weights).sum()}, {x})[0]);
    };
    const auto [expected, slope] = results();
    CHECK(at::equal(expected, at::reflection_pad2d(x.detach(), {p.x0, p.x1, p.y0, p.y1})));
    const Deterministic in_order;
    const auto [found, found_slope] = results();
    CHECK(at::equal(found, expected));
    CHECK(at::allclose(found_slope, slope));
  }
}
