// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan3/options.h"

#include "recipes/completed_config.h"
#include "support/catch.h"
#include "util/error.h"

using namespace gantrain;

namespace {

Config config_of(const std::map<std::string, Json>& values, const std::string& origin = "preset") {
  return run_config(stylegan3::facts(), values, origin);
}

Config completed(const std::map<std::string, Json>& values, const Site& site = {}) {
  Config config = config_of(values);
  stylegan3::facts().complete(config, site);
  return config;
}

double value(const Config& config, const char* key) { return config.get(key).get<double>(); }

}  // namespace

// The authors' table: 0.5, 2, 8, 32 at a batch of 32, the same for both configurations; FFHQ-U at
// 256 pixels and a batch of 64: 1.
TEST_CASE("GammaFollowsResolutionAndBatch") {
  for (const char* config : {"t", "r"}) {
    for (const auto& [pixels, gamma] :
         {std::pair(128, 0.5), std::pair(256, 2.0), std::pair(512, 8.0), std::pair(1024, 32.0)}) {
      const Config chosen = completed(
          {{"data.resolution", pixels}, {"train.batch", 32}, {"stylegan3.config", config}});
      CHECK(value(chosen, "stylegan3.gamma") == gamma);
    }
  }
  const Config ffhq_u = completed({{"data.resolution", 256}, {"train.batch", 64}});
  CHECK(value(ffhq_u, "stylegan3.gamma") == 1);
  CHECK(ffhq_u.origin("stylegan3.gamma") == "auto (256^2 / (1024 x 64))");
  CHECK(value(completed({{"stylegan3.gamma", 6.6}}), "stylegan3.gamma") == 6.6);
}

TEST_CASE("AverageAndBlurFollowTheBatchAndTheConfiguration") {
  const Config t = completed({{"train.batch", 16}, {"data.resolution", 256}});
  CHECK(value(t, "ema.half_life") == 5);
  CHECK(value(t, "stylegan3.blur_sigma") == 0);
  const Config r =
      completed({{"train.batch", 16}, {"data.resolution", 256}, {"stylegan3.config", "r"}});
  CHECK(value(r, "stylegan3.blur_sigma") == 10);
  CHECK(value(r, "stylegan3.blur_fade") == 100);
  CHECK(r.get("ada.mode") == "ada");
  CHECK(value(r, "ada.kimg") == 500);
  CHECK(value(completed({{"ema.half_life", 7}}), "ema.half_life") == 7);
}

// The authors' code does so with --resume=MODEL.
TEST_CASE("ARunFromOtherWeightsHasNoBlurAndNoRampUp") {
  const Config config = completed(
      {{"train.batch", 32}, {"stylegan3.config", "r"}, {"run.init_from", "m.safetensors"}});
  CHECK(value(config, "stylegan3.blur_sigma") == 0);
  CHECK(config.origin("stylegan3.blur_sigma") == "auto (run.init_from)");
  CHECK(value(config, "ema.rampup") == 0);
  CHECK(value(config, "ada.kimg") == 100);
}

TEST_CASE("WhatIsChosenOnceStays") {
  Config config = completed({{"stylegan3.config", "r"}}, {.ranks = 2});
  const Config before = config;
  stylegan3::facts().complete(config, {.ranks = 2});
  CHECK(differences(before, config).empty());
}

TEST_CASE("OnAGpuTheHighestRatesAreHalf") {
  const Config config = completed({{"train.batch", 32}}, {.ranks = 8, .on_gpu = true});
  CHECK(config.get("precision.mode") == "blocks");
  CHECK(config.get("precision.amp") == "fp16");
  const Config cpu = completed({{"train.batch", 32}, {"stylegan3.max_micro_batch", 4}});
  CHECK(cpu.get("precision.amp") == "off");
  CHECK(cpu.get("train.micro_batch") == 4);
}

TEST_CASE("OnlySquaresThatArePowersOfTwoAreTaken") {
  for (const int64_t good : {8, 16, 256, 1024})
    CHECK_NOTHROW(stylegan3::facts().check_resolution(square_of(good)));
  CHECK_THROWS_WITH(
      stylegan3::facts().check_resolution(square_of(48)),
      Catch::Contains("data.resolution = 48") && Catch::Contains("nearest: 32 and 64"));
  for (const Size& bad : {square_of(4), square_of(2048), Size{256, 128}})
    CHECK_THROWS_AS(stylegan3::facts().check_resolution(bad), UserError);
  CHECK_THROWS_WITH(completed({{"stylegan3.num_layers", 5}, {"stylegan3.num_critical", 5}}),
                    Catch::Contains("stylegan3.num_critical = 5"));
  CHECK_THROWS_WITH(completed({{"data.resolution", 32}, {"stylegan3.channel_base", 31}}),
                    Catch::Contains("stylegan3.channel_base = 31") && Catch::Contains("32"));
  CHECK_NOTHROW(completed({{"data.resolution", 32}, {"stylegan3.channel_base", 32}}));
  Config config = config_of({{"ada.pipe", "bgx"}});
  CHECK_THROWS_WITH(stylegan3::facts().complete(config, {}), Catch::Contains("bgx"));
}
