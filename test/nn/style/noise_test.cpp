// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "nn/style/layers.h"
#include "support/tensor_checks.h"

using namespace gantrain;

namespace {

struct Whose {
  uint64_t seed;
  int64_t iteration, phase;
};

NoiseInputs drawn(const Whose& whose, const Samples& samples) {
  return drawn_noise(make_draw_key(whose.seed, whose.iteration, whose.phase, at::kCPU),
                     samples,
                     at::TensorOptions(at::kDouble));
}

}  // namespace

TEST_CASE("NoiseDependsOnLayerAndGlobalSampleNotOnTheBatch") {
  const NoiseInputs whole = drawn({3, 7, 1}, {0, 1, 4}), second_rank = drawn({3, 7, 1}, {1, 2, 2});
  const at::Tensor x = whole(2, {8, 8});
  CHECK(x.sizes() == at::IntArrayRef({4, 1, 8, 8}));
  CHECK(x.scalar_type() == at::kDouble);
  CHECK(torch::equal(second_rank(2, {8, 8})[0], x[1]));
  CHECK(torch::equal(second_rank(2, {8, 8})[1], x[3]));
  CHECK_FALSE(torch::equal(whole(3, {8, 8}), x));
  for (const Whose& other : {Whose{4, 7, 1}, Whose{3, 8, 1}, Whose{3, 7, 0}})
    CHECK_FALSE(torch::equal(drawn(other, {0, 1, 4})(2, {8, 8}), x));
}

// The streams are part of what a resumed run goes on with.
TEST_CASE("NoiseIsThatOfItsLayersStream") {
  const Samples samples{1, 2, 3};
  const at::Tensor expected = normal(Stream(3, "noise/2", 7, 1), samples, {1, 4, 4});
  CHECK(torch::equal(drawn({3, 7, 1}, samples)(2, {4, 4}), expected.to(at::kDouble)));
}

TEST_CASE("NoNoiseIsUndefinedAndStoredNoiseIsTheNetworks") {
  CHECK_FALSE(no_noise()(0, {4, 4}).defined());
  CHECK_FALSE(stored_noise());
}
