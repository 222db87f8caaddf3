// SPDX-License-Identifier: Apache-2.0
#include "ops/convolution/convolution.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>

#include "core/torch.h"
#include "ops/cases.h"
#include "ops/kernels.h"
#include "support/catch.h"
#include "support/gradient_checks.h"

using namespace gantrain;
using at::Tensor;

namespace {

struct Case {
  int64_t images, in, out, height, width, side;
  ConvGeometry how;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {2, 40, 33, 16, 16, 3, {1, 1}},
      {1, 3, 35, 13, 8, 3, {1, 0}},
      {3, 5, 6, 4, 5, 3, {1, 2}},
      {1, 64, 32, 3, 3, 3, {1, 1}},
      {9, 32, 32, 8, 8, 3, {1, 1}},  // more than one block of tiles, and no multiple of it
      {2, 34, 40, 8, 8, 4, {2, 1}},
      {2, 31, 33, 9, 12, 4, {2, 0}},
      {2, 34, 36, 9, 13, 3, {2, 0}},
      {3, 5, 6, 17, 12, 3, {2, 1}},
      {1, 7, 7, 3, 3, 3, {2, 0}},
      {2, 4, 4, 6, 7, 3, {2, 2}},
  };
  return all;
}

Tensor random(at::IntArrayRef sizes, bool channels_last) {
  const Tensor t = torch::randn(sizes);
  return channels_last ? t.contiguous(at::MemoryFormat::ChannelsLast) : t;
}

// Each number's distance from the exact one, relative to the root of the exact ones' mean square.
double error(const Tensor& got, const Tensor& exact) {
  REQUIRE(got.sizes() == exact.sizes());
  REQUIRE(got.scalar_type() == at::kFloat);
  return ((got.to(at::kDouble) - exact).abs().max() / exact.square().mean().sqrt()).item<double>();
}

// Sums of up to some hundred products, each of them rounded.
constexpr double kError = 2e-5;

Tensor direct(const Tensor& x, const Tensor& w, const ConvGeometry& how) {
  return at::conv2d(x, w, {}, how.stride, how.padding);
}

}  // namespace

TEST_CASE("FilteredConvolutionsAreThoseOfFloat64") {
  torch::manual_seed(1);
  for (const Case& c : cases()) {
    for (const bool last : {false, true}) {
      const Tensor x = random({c.images, c.in, c.height, c.width}, last);
      const Tensor w = torch::randn({c.out, c.in, c.side, c.side});
      CAPTURE(x.sizes(), w.sizes(), c.how.stride, c.how.padding, last);
      REQUIRE(winograd_fits(x.sizes(), w.sizes(), c.how));
      const Tensor x64 = x.to(at::kDouble).requires_grad_(),
                   w64 = w.to(at::kDouble).requires_grad_();
      const Tensor exact = direct(x64, w64, c.how);
      const Tensor dy = random(exact.sizes(), !last);
      const auto gradients = torch::autograd::grad({exact}, {x64, w64}, {dy.to(at::kDouble)});
      CHECK(error(winograd_forward(x, w, c.how), exact.detach()) < kError);
      CHECK(error(winograd_input_gradient(dy, w, x.sizes(), c.how), gradients[0]) < kError);
      CHECK(error(winograd_weight_gradient(x, dy, w.sizes(), c.how), gradients[1]) < kError);
    }
  }
}

TEST_CASE("AFilteredConvolutionTakesAKernelWithAnyStrides") {
  torch::manual_seed(2);
  const Tensor x = torch::randn({2, 6, 9, 9}), w = torch::randn({3, 3, 6, 5}).permute({3, 2, 1, 0});
  const Tensor exact = direct(x.to(at::kDouble), w.to(at::kDouble), {1, 1});
  CHECK(error(winograd_forward(x, w, {1, 1}), exact) < kError);
}

TEST_CASE("TheErrorOfFilteringIsThatOfADirectConvolutionWithinAFactor") {
  torch::manual_seed(3);
  for (const ConvGeometry& how : {ConvGeometry{1, 1}, ConvGeometry{2, 1}}) {
    const int64_t side = how.stride == 1 ? 3 : 4;
    const Tensor x = torch::randn({2, 128, 16, 16}), w = torch::randn({64, 128, side, side});
    const Tensor exact = direct(x.to(at::kDouble), w.to(at::kDouble), how);
    const auto mean_error = [&](const Tensor& y) {
      return ((y.to(at::kDouble) - exact).square().mean() / exact.square().mean())
          .sqrt()
          .item<double>();
    };
    CAPTURE(how.stride);
    CHECK(mean_error(winograd_forward(x, w, how)) < 2e-6);
    CHECK(mean_error(winograd_forward(x, w, how)) < 8 * mean_error(direct(x, w, how)));
  }
}

TEST_CASE("FilteringDoesNotDependOnTheNumberOfThreads") {
  torch::manual_seed(4);
  const int threads = at::get_num_threads();
  for (const Case& c : cases()) {
    const Tensor x = random({c.images, c.in, c.height, c.width}, false);
    const Tensor w = torch::randn({c.out, c.in, c.side, c.side});
    std::vector<std::vector<Tensor>> results;
    for (const int count : {1, 2, 3}) {
      at::set_num_threads(count);
      const Tensor y = winograd_forward(x, w, c.how);
      results.push_back({y,
                         winograd_input_gradient(y, w, x.sizes(), c.how),
                         winograd_weight_gradient(x, y, w.sizes(), c.how)});
    }
    at::set_num_threads(threads);
    for (size_t i = 0; i < results[0].size(); ++i) {
      CHECK(at::equal(results[0][i], results[1][i]));
      CHECK(at::equal(results[0][i], results[2][i]));
    }
  }
}

TEST_CASE("FilteringPaysForManyTilesAndChannelsOnly") {
  CHECK(winograd_pays({8, 64, 32, 32}, {64, 64, 3, 3}, {1, 1}));
  CHECK(winograd_pays({8, 64, 32, 32}, {64, 64, 4, 4}, {2, 1}));
  CHECK_FALSE(winograd_pays({8, 3, 32, 32}, {64, 3, 3, 3}, {1, 1}));
  CHECK_FALSE(winograd_pays({8, 512, 4, 4}, {512, 512, 3, 3}, {1, 1}));
  CHECK_FALSE(winograd_pays({8, 64, 32, 32}, {64, 64, 1, 1}, {1, 0}));
  CHECK_FALSE(winograd_pays({8, 64, 32, 32}, {64, 64, 5, 5}, {1, 2}));
  CHECK_FALSE(winograd_pays({8, 64, 32, 32}, {64, 64, 3, 3}, {3, 1}));
  CHECK_FALSE(winograd_pays({0, 64, 32, 32}, {64, 64, 3, 3}, {1, 1}));
}

namespace {

// y of a convolution or of a transposed one, and the gradients of |dy/dx v|^2 + <y, u>, which has
// second derivatives in it: by x, w and the bias.
std::vector<Tensor> with_derivatives(const Tensor& x_in,
                                     const Tensor& w_in,
                                     const Tensor& b_in,
                                     const ConvPlace& place,
                                     bool transposed) {
  const Tensor x = x_in.clone().requires_grad_(), w = w_in.clone().requires_grad_(),
               b = b_in.clone().requires_grad_();
  const Tensor y = transposed ? conv_transpose2d(x, w, b, place) : conv2d(x, w, b, place);
  torch::manual_seed(6);
  const Tensor u = torch::randn(y.sizes()).to(x.options().requires_grad(false));
  const Tensor slope =
      torch::autograd::grad({(y * y * u).sum()}, {x}, {}, true, /*create_graph=*/true)[0];
  const Tensor loss = slope.square().sum() + (y * u).sum();
  std::vector<Tensor> all = torch::autograd::grad({loss}, {x, w, b});
  all.push_back(y.detach());
  return all;
}

}  // namespace

TEST_CASE("LayersOfEitherKindHaveSecondDerivatives") {
  struct Layer {
    bool transposed;
    std::vector<int64_t> x, w;
    ConvPlace place;
  };
  const std::vector<Layer> layers = {
      {false, {2, 32, 16, 16}, {40, 32, 3, 3}, {1, {1, 1}}},
      {false, {8, 32, 18, 18}, {40, 32, 3, 3}, {2, {0, 0}}},
      {false, {2, 32, 32, 32}, {40, 32, 4, 4}, {2, {1, 1}}},
      {true, {2, 32, 16, 16}, {32, 40, 3, 3}, {2, {0, 0}}},
      {true, {2, 32, 16, 16}, {32, 40, 4, 4}, {2, {1, 1}}},
      // Rectangles, also with sides that are no multiple of a tile's.
      {false, {2, 32, 16, 32}, {40, 32, 3, 3}, {1, {1, 1}}},
      {false, {4, 32, 10, 28}, {40, 32, 3, 3}, {1, {1, 1}}},
      {false, {2, 32, 24, 56}, {40, 32, 4, 4}, {2, {1, 1}}},
      {true, {2, 32, 10, 28}, {32, 40, 3, 3}, {2, {0, 0}}},
      {true, {2, 32, 12, 24}, {32, 40, 4, 4}, {2, {1, 1}}},
  };
  for (const Layer& layer : layers) {
    torch::manual_seed(5);
    const Tensor x = torch::randn(layer.x), w = 0.1 * torch::randn(layer.w);
    const Tensor b = torch::randn({40});
    CAPTURE(layer.x, layer.w, layer.place.stride, layer.transposed);
    const auto got = with_derivatives(x, w, b, layer.place, layer.transposed);
    const auto exact = with_derivatives(
        x.to(at::kDouble), w.to(at::kDouble), b.to(at::kDouble), layer.place, layer.transposed);
    for (size_t i = 0; i < got.size(); ++i) CHECK(error(got[i], exact[i]) < 1e-4);
    // It is another algorithm indeed.
    const WithKernels reference(KernelSet::kRef);
    const auto composed = with_derivatives(x, w, b, layer.place, layer.transposed);
    CHECK_FALSE(at::equal(composed.back(), got.back()));
    CHECK(error(composed.back(), exact.back()) < kError);
  }
}

// The derivatives of both orders, and one kernel for all groups in each of them.
TEST_CASE("ConvolutionsInGroupsHaveLibTorchsDerivatives") {
  torch::manual_seed(7);
  for (const bool last : {false, true}) {
    for (const ConvPlace& place : {ConvPlace{1, {1, 1}, 3}, ConvPlace{2, {0, 0}, 6}}) {
      const Tensor x = random({2, 12, 9, 7}, last).to(at::kDouble);
      const Tensor w = torch::randn({18, 12 / place.groups, 3, 3}, at::kDouble);
      const Tensor b = torch::randn({18}, at::kDouble);
      CAPTURE(last, place.stride, place.groups);
      const auto got = with_derivatives(x, w, b, place, /*transposed=*/false);
      const WithKernels reference(KernelSet::kRef);
      const auto exact = with_derivatives(x, w, b, place, /*transposed=*/false);
      for (size_t i = 0; i < got.size(); ++i) CHECK(at::allclose(got[i], exact[i], 1e-10, 1e-10));
    }
  }
}

TEST_CASE("OnlyTheGradientsThatAreNeededAreComputed") {
  const Tensor x = torch::randn({2, 32, 16, 16}), w = torch::randn({32, 32, 3, 3}).requires_grad_();
  const Tensor y = conv2d(x, w, {}, {1, {1, 1}});
  CHECK(torch::autograd::grad({y.sum()}, {w})[0].sizes() == w.sizes());
  const torch::NoGradGuard none;
  CHECK_FALSE(conv2d(x, w, {}, {1, {1, 1}}).requires_grad());
}

TEST_CASE("ConvResampleMatchesReference") {
  for_each_case("ops_conv2d_resample", {"conv2d_resample"}, [](OperatorCase& c) {
    const ConvResample how{c.what["up"],
                           c.what["down"],
                           padding_of(c.what["padding"]),
                           c.what["groups"],
                           c.what["flip_weight"],
                           c.what["flip_filter"]};
    REQUIRE(c["f"].defined() == c.what["filter"].get<bool>());
    const at::Tensor x = c.leaf("x"), w = c.leaf("w");
    const at::Tensor y = conv2d_resample(x, w, c["f"], how);
    c.check("y", y);
    c.check_gradients(y, {{"x", x}, {"w", w}});
  });
}

namespace {

struct OddResampling {
  std::vector<int64_t> w, f;
  ConvResample how;
};

std::vector<OddResampling> odd_resamplings() {
  return {
      {{2, 1, 3, 3}, {4, 4}, {2, 1, {1, 1, 1, 1}, 1, false}},
      {{2, 1, 3, 3}, {4, 4}, {1, 2, {1, 1, 1, 1}}},
      {{1, 1, 1, 1}, {4, 4}, {1, 2, {0, 1, -1, 0}}},
      {{3, 1, 1, 1}, {3, 2}, {2, 1, {}, 1, true, true}},
      {{2, 1, 3, 5}, {3, 5}, {2, 2, {3, 1, 2, 0}, 1, true, true}},
      {{2, 1, 5, 3}, {6}, {3, 1, {2, 2, 0, 3}, 1, false}},
      {{1, 1, 3, 3}, {2}, {3, 2, {4, 4, 4, 4}}},
      {{2, 1, 3, 3}, {}, {1, 1, {2, 0, 1, 3}, 1, false}},
  };
}

}  // namespace

TEST_CASE("ConvResamplesDerivativesMatchDifferences") {
  for (const KernelSet set : {KernelSet::kAuto, KernelSet::kRef}) {
    const WithKernels with(set);
    for (const OddResampling& odd : odd_resamplings()) {
      const at::Tensor f = odd.f.empty() ? at::Tensor() : torch::randn(odd.f, at::kDouble);
      const auto y = [&](const Tensors& in) { return conv2d_resample(in[0], in[1], f, odd.how); };
      const Tensors inputs = {torch::randn({2, 1, 7, 9}, at::kDouble),
                              torch::randn(odd.w, at::kDouble)};
      CAPTURE(odd.w, odd.f, odd.how.up, odd.how.down);
      CHECK(gradient_error(y, inputs) < kGradientTolerance);
      CHECK(second_gradient_error(y, inputs) < kGradientTolerance);
    }
  }
}

TEST_CASE("TheCheapOrderEqualsTheDefinition") {
  for (const OddResampling& odd : odd_resamplings()) {
    for (const int64_t groups : {1, 3}) {
      ConvResample how = odd.how;
      how.groups = groups;
      const at::Tensor f = odd.f.empty() ? at::Tensor() : torch::randn(odd.f, at::kDouble);
      const at::Tensor x = torch::randn({2, 3, 7, 9}, at::kDouble);
      const at::Tensor w =
          torch::randn({odd.w[0] * groups, 3 / groups, odd.w[2], odd.w[3]}, at::kDouble);
      const WithKernels plain(KernelSet::kRef);
      const at::Tensor reference = conv2d_resample(x, w, f, how);
      const WithKernels fast(KernelSet::kAuto);
      CAPTURE(odd.w, odd.f, how.up, how.down, groups);
      CHECK(scaled_error(conv2d_resample(x, w, f, how), reference) < 1e-12);
    }
  }
}

TEST_CASE("ConvResampleFollowsAutocast") {
  const at::Tensor x = torch::randn({1, 2, 8, 8}), w = torch::randn({3, 2, 3, 3});
  const ConvResample how{2, 1, {1, 1, 1, 1}};
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  const at::Tensor lowered = conv2d_resample(x, w, setup_filter({1, 3, 3, 1}), how);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  CHECK(lowered.scalar_type() == at::kBFloat16);
  const at::Tensor y = conv2d_resample(x, w, setup_filter({1, 3, 3, 1}), how);
  CHECK(y.scalar_type() == at::kFloat);
  CHECK(scaled_error(lowered, y) < 3e-2);
}
