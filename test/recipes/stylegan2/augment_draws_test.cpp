// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/augment_draws.h"

#include <catch2/catch.hpp>

#include "recipes/stylegan2/known_draws.h"

using namespace gantrain;
using namespace gantrain::stylegan2;

TEST_CASE("DrawsDependOnNameIterationAndPhaseAlone") {
  StreamDraws a({7, 3, 1}, {0, 1, 5}), b({7, 3, 1}, {0, 1, 5});
  const at::Tensor first = a.uniform("xflip", {2});
  b.normal("scale", {1});
  b.uniform("xint", {2});
  CHECK(at::equal(b.uniform("xflip", {2}), first));
  CHECK_FALSE(at::equal(a.uniform("xflip/on", {2}), first));
  for (const StreamDraws::Key& other :
       {StreamDraws::Key{8, 3, 1}, StreamDraws::Key{7, 4, 1}, StreamDraws::Key{7, 3, 2}}) {
    CHECK_FALSE(at::equal(StreamDraws(other, {0, 1, 5}).uniform("xflip", {2}), first));
  }
}

TEST_CASE("AShareOfTheBatchKnowsTheWholeBatchsDraws") {
  StreamDraws share({7, 3, 1}, {1, 3, 4});
  const std::unique_ptr<Draws> all = share.whole_batch();
  REQUIRE(all);
  const at::Tensor whole = all->normal("scale", {1});
  CHECK(whole.size(0) == 12);
  CHECK(at::equal(share.normal("scale", {1}), whole.slice(0, 1, {}, 3)));
  CHECK_FALSE(stream_draws(12).whole_batch());
}

TEST_CASE("ATransformIsAppliedWithItsProbability") {
  constexpr int64_t kSamples = 4000;
  StreamDraws draws = stream_draws(kSamples);
  for (const double p : {0.0, .1, .6, 1.0, 3.0}) {
    const Drawn drawn = draw({"xint", Distribution::kUniform, 2, p}, draws);
    REQUIRE(drawn.number.size() == 2 * kSamples);
    const auto on = static_cast<double>(std::count(drawn.on.begin(), drawn.on.end(), true));
    CHECK(on / kSamples == Approx(std::min(p, 1.0)).margin(.025));  // 3 deviations
  }
}

TEST_CASE("NumbersAreSentInTheImagesType") {
  const at::Tensor numbers = torch::tensor({1.5, 2.5}, at::kDouble);
  const at::Tensor sent = sent_to(numbers, torch::zeros({1}, at::kFloat));
  CHECK(sent.scalar_type() == at::kFloat);
  CHECK(at::equal(sent.to(at::kDouble), numbers));
}
