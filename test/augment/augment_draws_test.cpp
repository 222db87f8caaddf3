// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "augment/known_draws.h"
#include "augment/sample_values.h"
#include "core/random.h"

using namespace gantrain;

namespace {

DrawKey key(uint64_t seed, int64_t iteration, int64_t phase) {
  return make_draw_key(seed, iteration, phase, at::kCPU);
}

}  // namespace

TEST_CASE("DrawsDependOnNameIterationAndPhaseAlone") {
  StreamDraws a(key(7, 3, 1), {0, 1, 5}), b(key(7, 3, 1), {0, 1, 5});
  const at::Tensor first = a.uniform("xflip", {2});
  b.normal("scale", {1});
  b.uniform("xint", {2});
  CHECK(at::equal(b.uniform("xflip", {2}), first));
  CHECK_FALSE(at::equal(a.uniform("xflip/on", {2}), first));
  for (const DrawKey& other : {key(8, 3, 1), key(7, 4, 1), key(7, 3, 2)}) {
    CHECK_FALSE(at::equal(StreamDraws(other, {0, 1, 5}).uniform("xflip", {2}), first));
  }
}

TEST_CASE("DrawsAreThoseOfTheStreamOfTheirName") {
  StreamDraws draws(key(7, 3, 1), {1, 2, 5});
  const Samples samples{1, 2, 5};
  CHECK(at::equal(draws.uniform("xint", {2}),
                  uniform(Stream(7, "augment/xint", 3, 1), samples, {2})));
  CHECK(at::equal(draws.normal("noise/field", {3, 4, 4}),
                  normal(Stream(7, "augment/noise/field", 3, 1), samples, {3, 4, 4})));
}

TEST_CASE("AShareOfTheBatchKnowsTheWholeBatchsDraws") {
  StreamDraws share(key(7, 3, 1), {1, 3, 4});
  const std::unique_ptr<AugmentDraws> all = share.whole_batch();
  REQUIRE(all);
  const at::Tensor whole = all->normal("scale", {1});
  CHECK(whole.size(0) == 12);
  CHECK(at::equal(share.normal("scale", {1}), whole.slice(0, 1, {}, 3)));
  CHECK_FALSE(stream_draws(12).whole_batch());
}
