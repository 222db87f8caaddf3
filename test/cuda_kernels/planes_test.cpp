// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "core/torch.h"
#include "cuda_kernels/random_cases.h"
#include "ops/gpu/table_cuda.h"
#include "ops/modulation/modulated_conv2d.h"
#include "ops/modulation/modulation_gpu.h"

using namespace gantrain;
using at::Tensor;

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
  const WithTable with(*gantrain_cuda_kernels());
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
