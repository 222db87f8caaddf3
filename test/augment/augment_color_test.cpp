// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "augment/known_draws.h"

using namespace gantrain;
using O = AugmentOptions;

namespace {

at::Tensor color(const at::Tensor& x, const AugmentOptions& o, double q) {
  PercentileDraws draws(q, x.size(0));
  return augment_color(x, strength(1), o, draws);
}

const double kNormal = .4769362762044699;  // erfinv(.5), what PercentileDraws gives at q = .75

}  // namespace

TEST_CASE("EachColourTransformIsWhatItsNameSays") {
  const at::Tensor x = pictures(2, 3, 5, 7);
  const at::Tensor luma = x.mean(1, true);
  const at::Tensor chroma = x - luma;
  CHECK(difference(color(x, only({&O::brightness}), .75), x + .2 * kNormal) < 1e-7);
  CHECK(difference(color(x, only({&O::contrast}), .75), x * std::exp2(.5 * kNormal)) < 1e-7);
  CHECK(difference(color(x, only({&O::lumaflip}), .75), chroma - luma) < 1e-7);
  CHECK(difference(color(x, only({&O::lumaflip}), .25), x) < 1e-7);
  CHECK(difference(color(x, only({&O::saturation}), .75), luma + chroma * std::exp2(kNormal)) <
        1e-7);
  AugmentOptions third = only({&O::hue});
  third.hue_max = 2. / 3;  // u = 1: a third of a turn
  const at::Tensor turned = color(x, third, 1);
  const bool one_way = difference(turned, x.roll(1, 1)) < 1e-6;
  const bool other_way = difference(turned, x.roll(-1, 1)) < 1e-6;
  CHECK(one_way != other_way);
}

TEST_CASE("GreyIsColouredAsRgbWithEqualChannels") {
  const at::Tensor grey = pictures(6, 1, 4, 4);
  const AugmentOptions o = augment_pipe("color");
  StreamDraws a = stream_draws(6), b = stream_draws(6);
  const at::Tensor rgb = augment_color(grey.expand({6, 3, 4, 4}), strength(.8), o, a);
  CHECK(difference(augment_color(grey, strength(.8), o, b).expand_as(rgb), rgb) < 1e-6);
}

TEST_CASE("AlphaKeepsItsValues") {
  const AugmentOptions o = augment_pipe("color");
  for (const int64_t colours : {1, 3}) {
    const at::Tensor x = pictures(6, colours + 1, 4, 4);
    StreamDraws a = stream_draws(6), b = stream_draws(6);
    const at::Tensor y = augment_color(x, strength(1), o, a);
    CHECK(at::equal(y.narrow(1, colours, 1), x.narrow(1, colours, 1)));
    CHECK(at::equal(y.narrow(1, 0, colours),
                    augment_color(x.narrow(1, 0, colours).contiguous(), strength(1), o, b)));
  }
}
