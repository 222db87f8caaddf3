// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan1/noise.h"

#include <catch2/catch.hpp>

#include "tensor_checks.h"

using namespace gantrain;
namespace sg = gantrain::stylegan1;

TEST_CASE("NoiseDependsOnLayerAndGlobalSampleNotOnTheBatch") {
  const at::Tensor like = torch::zeros({1}, at::kDouble);
  const auto whole = sg::drawn_noise({3, 7, 1, {0, 1, 4}}, like);
  const auto second_rank = sg::drawn_noise({3, 7, 1, {1, 2, 2}}, like);
  const at::Tensor x = whole(2, 8);
  CHECK(x.sizes() == at::IntArrayRef({4, 1, 8, 8}));
  CHECK(x.scalar_type() == at::kDouble);
  CHECK(torch::equal(second_rank(2, 8)[0], x[1]));
  CHECK(torch::equal(second_rank(2, 8)[1], x[3]));
  CHECK_FALSE(torch::equal(whole(3, 8), x));
  for (const sg::NoiseKey& other : {sg::NoiseKey{4, 7, 1, {0, 1, 4}},
                                    sg::NoiseKey{3, 8, 1, {0, 1, 4}},
                                    sg::NoiseKey{3, 7, 0, {0, 1, 4}}})
    CHECK_FALSE(torch::equal(sg::drawn_noise(other, like)(2, 8), x));
  CHECK_FALSE(sg::no_noise()(0, 4).defined());
}
