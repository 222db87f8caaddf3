// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/options.h"

#include <catch2/catch.hpp>

#include "data/options.h"
#include "train/options.h"
#include "util/error.h"

using namespace gantrain;

namespace {

Config config_of(const std::map<std::string, Json>& values, const std::string& origin = "preset") {
  Schema schema;
  add_keys<TrainOptions>(schema, "train.");
  add_keys<DataOptions>(schema, "data.");
  add_keys<EmaOptions>(schema, "ema.");
  stylegan2::facts().add_keys(schema);
  Config config(schema);
  for (const auto& [key, value] : values) config.set(key, value, origin);
  return config;
}

Config automatic(int64_t resolution, int64_t ranks) {
  Config config = config_of({{"stylegan2.automatic", true}, {"data.resolution", resolution}});
  stylegan2::facts().complete(config, ranks);
  return config;
}

double value(const Config& config, const char* key) { return config.get(key).get<double>(); }

}  // namespace

// Table of the `auto` values, 64 to 1024 pixels, 1 to 8 ranks: batch and gamma.
TEST_CASE("AutomaticBatchAndGammaAreTheReferences") {
  struct Row {
    int64_t resolution;
    double batch[4], gamma[4];
  };
  const Row table[] = {
      {64, {32, 64, 64, 64}, {.0256, .0128, .0128, .0128}},
      {128, {32, 64, 64, 64}, {.1024, .0512, .0512, .0512}},
      {256, {16, 32, 64, 64}, {.8192, .4096, .2048, .2048}},
      {512, {8, 16, 32, 64}, {6.5536, 3.2768, 1.6384, .8192}},
      {1024, {4, 8, 16, 32}, {52.4288, 26.2144, 13.1072, 6.5536}},
  };
  for (const Row& row : table) {
    for (int i = 0; i < 4; ++i) {
      const Config config = automatic(row.resolution, int64_t{1} << i);
      CAPTURE(row.resolution, i);
      CHECK(value(config, "train.batch") == row.batch[i]);
      CHECK(value(config, "stylegan2.gamma") == Approx(row.gamma[i]));
      CHECK(value(config, "stylegan2.mbstd_group") == 4);
      CHECK(value(config, "stylegan2.channel_base") == (row.resolution >= 512 ? 32768 : 16384));
      CHECK(value(config, "G.adam.lr") == (row.resolution >= 1024 ? .002 : .0025));
      CHECK(value(config, "ema.half_life") == Approx(row.batch[i] * 10 / 32));
    }
  }
}

TEST_CASE("AnyNumberOfRanksGetsABatchThatTheyAndTheGroupDivide") {
  for (int64_t ranks = 1; ranks <= 80; ++ranks) {
    for (const int64_t resolution : {32, 256, 1024}) {
      const Config config = automatic(resolution, ranks);
      const auto batch = config.get("train.batch").get<int64_t>();
      CAPTURE(ranks, resolution, batch);
      CHECK(batch % (ranks * config.get("stylegan2.mbstd_group").get<int64_t>()) == 0);
    }
  }
}

TEST_CASE("WhatTheUserGaveIsNotChosen") {
  Config config = config_of({{"stylegan2.automatic", true}, {"data.resolution", 64}});
  config.set("train.batch", 24, "flag --batch");
  config.set("G.adam.lr", 0.001, "flag --set");
  const std::vector<std::string> said = stylegan2::facts().complete(config, 2);
  CHECK(value(config, "train.batch") == 24);
  CHECK(value(config, "G.adam.lr") == 0.001);
  CHECK(value(config, "D.adam.lr") == 0.0025);
  CHECK(value(config, "stylegan2.gamma") == Approx(0.0002 * 64 * 64 / 24));
  CHECK(config.origin("stylegan2.gamma") == "auto (0.0002 x 64^2 / 24)");
  REQUIRE(said.size() == 2);
  CHECK_THAT(said[1], Catch::Contains("0.0002 x 64^2 / 24"));
}

// A paper's batch of 64 made for 8 ranks: fewer ranks accumulate, any divisor will do.
TEST_CASE("FewerRanksAccumulateThePapersBatch") {
  const std::map<int64_t, int64_t> micro = {{1, 8}, {2, 8}, {4, 8}, {8, 8}, {16, 4}, {32, 2}};
  for (const auto& [ranks, expected] : micro) {
    Config config = config_of({{"train.batch", 64},
                               {"data.resolution", 256},
                               {"stylegan2.gamma", 1},
                               {"stylegan2.mbstd_group", 8},
                               {"stylegan2.max_micro_batch", 8}});
    stylegan2::facts().complete(config, ranks);
    CAPTURE(ranks);
    const Json chosen = config.get("train.micro_batch");
    CHECK((chosen == "auto" ? 64 / ranks : chosen.get<int64_t>()) == expected);
  }
  Config three = config_of({{"train.batch", 36}, {"stylegan2.max_micro_batch", 8}});
  stylegan2::facts().complete(three, 3);
  CHECK(three.get("train.micro_batch") == 4);
}

TEST_CASE("SizesThatNoNetworkHasAreRefused") {
  for (const int64_t good : {8, 64, 1024}) CHECK_NOTHROW(stylegan2::facts().check_resolution(good));
  for (const int64_t bad : {4, 48, 2048})
    CHECK_THROWS_AS(stylegan2::facts().check_resolution(bad), UserError);
  Config config = config_of({{"ada.pipe", "bgx"}});
  CHECK_THROWS_WITH(stylegan2::facts().complete(config, 1), Catch::Contains("bgx"));
}
