// SPDX-License-Identifier: Apache-2.0
#include "ops/affine_warp/affine_warp.h"

#include "augment/augment.h"
#include "augment/wavelets.h"
#include "core/device.h"
#include "core/torch.h"
#include "cuda_kernels/random_cases.h"
#include "ops/gpu/table_cuda.h"
#include "ops/kernels.h"
#include "ops/resample.h"
#include "support/catch.h"

using namespace gantrain;
using at::Tensor;

namespace {

struct WarpCase {
  Tensor x, transforms, margins;

  AffineWarp how() const { return {sym6_lowpass(), transforms, margins}; }
  std::string text() const {
    std::ostringstream all;
    all << x.sizes() << " " << x.scalar_type() << " margins " << margins << " transforms "
        << transforms;
    return all.str();
  }
};

// The operators that the kernels stand for: the mirrored, doubled picture in memory, sampled at
// places in [-1, 1] of it, in float64.
Tensor composed_warp(const Tensor& x, const AffineWarp& how) {
  const int64_t h = x.size(2), w = x.size(3);
  const Tensor fine = sym6_doubled_within(x, how.margins);
  const Tensor G = how.transforms.view({-1, 3, 3});
  const auto axis = [](int64_t length) {  // output pixels from the centre, half a pixel apart
    const int64_t samples = 2 * (length + 2 * AffineWarp::kCropped);
    return (at::arange(samples, at::kDouble) + .5 - samples / 2. + .5) / 2;
  };
  const Tensor u = axis(w).view({1, 1, -1}), v = axis(h).view({1, -1, 1});
  const auto place = [&](int64_t row, int64_t length) {
    const auto entry = [&](int64_t i) { return G.select(1, row).select(1, i).view({-1, 1, 1}); };
    const Tensor pixels = entry(0) * u + entry(1) * v + entry(2);
    return (2 * pixels - .5) / static_cast<double>(length);  // half of the doubled picture is 1
  };
  const Tensor grid = at::stack({place(0, 3 * w - 2), place(1, 3 * h - 2)}, 3);
  return grid_sample(fine, grid);
}

// Turned, scaled, sheared and moved, from not at all to far beyond the picture.
Tensor random_transforms(Dice& dice, int64_t samples, int64_t height, int64_t width) {
  std::vector<Tensor> all;
  for (int64_t n = 0; n < samples; ++n) {
    Tensor g = at::eye(3, at::kDouble);
    const double far = dice.one_of({0.0, .05, .5});
    const auto side = static_cast<double>(std::max(height, width));
    switch (dice.up_to(5)) {
      case 0:
        break;
      case 1:  // whole pixels
        g[0][2] = static_cast<double>(dice.up_to(6) - 3);
        g[1][2] = static_cast<double>(dice.up_to(6) - 3);
        break;
      case 2:  // a quarter turn
        g[0][0] = g[1][1] = 0;
        g[0][1] = -1;
        g[1][0] = 1;
        break;
      default:
        g.slice(0, 0, 2).slice(1, 0, 2).add_(at::randn({2, 2}, at::kDouble) * .4);
        g.slice(0, 0, 2).slice(1, 2, 3).add_(at::randn({2, 1}, at::kDouble) * (far * side));
    }
    all.push_back(g.flatten());
  }
  return at::stack(all);
}

WarpCase random_warp(Dice& dice, at::ScalarType type) {
  const int64_t height = 1 + dice.up_to(dice.coin() ? 6 : 40), width = 1 + dice.up_to(40);
  const int64_t samples = 1 + dice.up_to(2), channels = dice.one_of({1, 2, 3, 4, 7});
  WarpCase one;
  one.x = random_strides(dice, at::randn({samples, channels, height, width}).to(type));
  one.transforms = random_transforms(dice, samples, height, width);
  const auto margin = [&](int64_t length) {
    return static_cast<double>(std::min<int64_t>(dice.coin() ? 12 : dice.up_to(40), length - 1));
  };
  one.margins =
      at::tensor({margin(width), margin(width), margin(height), margin(height)}, at::kDouble);
  return one;
}

}  // namespace

TEST_CASE("AffineWarpKernelsComputeWhatTheComposedOperatorsDo") {
  const WithCudaKernels table;
  Dice dice(31);
  for (int64_t i = 0; i < 60; ++i) {
    const auto type = dice.one_of({at::kFloat, at::kDouble});
    const WarpCase one = random_warp(dice, type);
    INFO(i << ": " << one.text());
    const Tensor y = affine_warp(one.x, one.how());
    REQUIRE(y.scalar_type() == type);
    const WithKernels reference(KernelSet::kRef);
    const Tensor expected = composed_warp(one.x.to(at::kDouble), one.how());
    REQUIRE(y.sizes() == expected.sizes());
    // A place is off by a rounding of some hundred pixels.
    CHECK(share_of_error(y, expected) < (type == at::kDouble ? 1e-12 : 1e-4));
  }
}

// Linear: <y, warp(x)> = <adjoint(y), x> for every x and y, and the adjoint's derivative is the
// warp.
TEST_CASE("AffineWarpKernelsDerivativesAreThoseOfTheComposedOperators") {
  const WithCudaKernels table;
  Dice dice(32);
  for (int64_t i = 0; i < 30; ++i) {
    const auto type = dice.one_of({at::kFloat, at::kDouble});
    const WarpCase one = random_warp(dice, type);
    INFO(i << ": " << one.text());
    const AffineWarp how = one.how();
    const auto op = [&](const Tensors& in) {
      return has_affine_warp(in[0]) ? affine_warp(in[0], how) : composed_warp(in[0], how);
    };
    CHECK(derivatives_error(op, {one.x}) < (type == at::kDouble ? 1e-12 : 2e-4));
  }
}

TEST_CASE("AffineWarpKernelsTakeTransformsWithoutAnInverse") {
  const WithCudaKernels table;
  Dice dice(33);
  WarpCase one = random_warp(dice, at::kDouble);
  one.x = at::randn({4, 2, 9, 20}, at::kDouble);
  one.margins = at::tensor({8., 8., 8., 8.}, at::kDouble);
  one.transforms = at::tensor({0.,  0., 0., 0., 0.,  0., 0., 0., 1.,  // all samples at one place
                               1.,  0., 0., 2., 0.,  1., 0., 0., 1.,  // on one line
                               0.,  .3, 0., 0., .1,  1., 0., 0., 1.,  //
                               1e9, 0., 0., 0., 1e9, 0., 0., 0., 1.},
                              at::kDouble)
                       .view({4, 9});
  const AffineWarp how = one.how();
  const auto op = [&](const Tensors& in) {
    return has_affine_warp(in[0]) ? affine_warp(in[0], how) : composed_warp(in[0], how);
  };
  CHECK(derivatives_error(op, {one.x}) < 1e-12);
}

TEST_CASE("AffineWarpKernelsTakeNoSamplesAndNoChannels") {
  const WithCudaKernels table;
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{0, 3, 8, 9}, {2, 0, 8, 9}}) {
    const Tensor x = at::zeros(sizes).requires_grad_(true);
    const Tensor transforms = at::eye(3, at::kDouble).flatten().repeat({sizes[0], 1});
    const Tensor y = affine_warp(x, {sym6_lowpass(), transforms, at::zeros({4}, at::kDouble)});
    CHECK(y.sizes() == at::IntArrayRef({sizes[0], sizes[1], 28, 30}));
    y.sum().backward();
    CHECK(x.grad().sizes() == x.sizes());
  }
}

namespace {

// augment_geometry() of one batch and its derivatives, as on a device.
struct Geometry {
  AugmentOptions options = augment_pipe("bgc");
  double p = 1;
  Samples samples{0, 1, 4};

  Tensor operator()(const Tensor& images) const {
    const AssumeReadsWait reads_wait;
    StreamDraws draws(make_draw_key(3, 5, 0, at::kCPU), samples);
    return augment_geometry(images, at::scalar_tensor(p, at::kDouble), options, draws);
  }
};

}  // namespace

TEST_CASE("AugmentationThroughTheKernelsIsThatOfTheComposedOperators") {
  const WithCudaKernels table;
  torch::manual_seed(4);
  const Samples all{0, 1, 4}, share{1, 2, 4};
  for (const auto& [p, channels, height, width, samples] : {std::tuple{.2, 3, 24, 24, all},
                                                            {1., 3, 24, 24, share},
                                                            {1., 1, 13, 37, all},
                                                            {.6, 4, 21, 9, share}}) {
    const Geometry geometry{augment_pipe("bgc"), p, samples};
    const auto op = [&](const Tensors& in) { return geometry(in[0]); };
    const Tensor x = at::randn({4, channels, height, width}, at::kDouble);
    CAPTURE(p, channels, height, width, samples.stride);
    CHECK(derivatives_error(op, {x}) < 1e-12);
    CHECK(derivatives_error(op, {x.to(at::kFloat)}) < 2e-4);
  }
}

TEST_CASE("PicturesThatNothingWasDrawnForComeBackThroughTheKernels") {
  const WithCudaKernels table;
  const Tensor x = at::randn({4, 3, 20, 31}, at::kDouble);
  CHECK(share_of_error(Geometry{augment_pipe("bgc"), 1e-9}(x), x) < 1e-9);
}
