// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "ops/resample.h"
#include "support/gradient_checks.h"
#include "support/tensor_checks.h"

using namespace gantrain;

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
