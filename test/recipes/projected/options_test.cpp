// SPDX-License-Identifier: Apache-2.0
#include "recipes/projected/options.h"

#include "recipes/completed_config.h"
#include "support/catch.h"
#include "util/error.h"

using namespace gantrain;
using Catch::Contains;

namespace {

Config config_of(const std::map<std::string, Json>& values) {
  return run_config(projected::facts(), values, "flag");
}

}  // namespace

TEST_CASE("TheAveragesHalfLifeFollowsTheBatchUnlessGiven") {
  Config config = config_of({{"train.batch", 64}});
  projected::facts().complete(config, {});
  CHECK(config.get("ema.half_life") == 20);
  Config given = config_of({{"train.batch", 64}, {"ema.half_life", 3}});
  projected::facts().complete(given, {});
  CHECK(given.get("ema.half_life") == 3);
}

TEST_CASE("ARunFromOtherWeightsHasNoRampUp") {
  Config config = config_of({{"run.init_from", "m.safetensors"}});
  projected::facts().complete(config, {});
  CHECK(config.get("ema.rampup") == 0);
}

TEST_CASE("PicturesAreSquaresOfPowersOfTwo") {
  for (const int64_t side : {16, 32, 64, 128, 256, 512, 1024})
    CHECK_NOTHROW(projected::facts().check_resolution(square_of(side)));
  CHECK_THROWS_WITH(projected::facts().check_resolution({64, 32}), Contains("64x32"));
  CHECK_THROWS_WITH(projected::facts().check_resolution(square_of(48)), Contains("32 and 64"));
  CHECK_THROWS_AS(projected::facts().check_resolution(square_of(8)), UserError);
}

TEST_CASE("WhatDoesNotFitIsNamed") {
  const auto refused = [](const std::map<std::string, Json>& values) {
    Config config = config_of(values);
    projected::facts().complete(config, {});
  };
  CHECK_THROWS_WITH(refused({{"projected.input", 100}}), Contains("projected.input = 100"));
  CHECK_THROWS_WITH(refused({{"projected.feature_widths", "8,4"}}),
                    Contains("projected.feature_widths = 8,4"));
  CHECK_THROWS_WITH(refused({{"projected.feature_widths", "wide"}}), Contains("eight numbers"));
}

TEST_CASE("RandomFeaturesAreSaid") {
  Config config = config_of({});
  const auto lines = projected::facts().complete(config, {});
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Contains("random") && Contains("--features"));
}
