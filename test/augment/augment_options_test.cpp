// SPDX-License-Identifier: Apache-2.0
#include "augment/augment_options.h"

#include <catch2/catch.hpp>
#include <map>

#include "augment/known_draws.h"
#include "config/config.h"
#include "util/error.h"

using namespace gantrain;

TEST_CASE("TheDefaultIsThePipeBgc") {
  const AugmentOptions bgc = augment_pipe("bgc"), o;
  for (const auto& [name, which] : switches()) {
    CAPTURE(name);
    CHECK(o.*which == bgc.*which);
  }
}

TEST_CASE("PipesAreUnionsOfTheirGroups") {
  const std::map<std::string, std::vector<std::string>> groups = {
      {"bg", {"blit", "geom"}},
      {"bgc", {"blit", "geom", "color"}},
      {"bgcf", {"blit", "geom", "color", "filter"}},
      {"bgcfn", {"blit", "geom", "color", "filter", "noise"}},
      {"bgcfnc", {"blit", "geom", "color", "filter", "noise", "cutout"}}};
  for (const auto& [name, parts] : groups) {
    const AugmentOptions all = augment_pipe(name);
    for (const auto& [key, which] : switches()) {
      double sum = 0;
      for (const std::string& part : parts) sum += augment_pipe(part).*which;
      CAPTURE(name, key);
      CHECK(all.*which == sum);
    }
  }
  double switched_on = 0;
  const AugmentOptions everything = augment_pipe("bgcfnc");
  for (const auto& [key, which] : switches()) switched_on += everything.*which;
  CHECK(switched_on == static_cast<double>(switches().size()));
}

TEST_CASE("AnUnknownPipeIsAnsweredWithTheNames") {
  try {
    augment_pipe("bgx");
    FAIL("no error");
  } catch (const UserError& error) {
    CHECK(error.code() == Exit::kUsage);
    for (const char* word : {"bgx", "blit", "bgc,", "bgcfnc"}) {
      CHECK(std::string(error.what()).find(word) != std::string::npos);
    }
  }
}

TEST_CASE("EveryAugmentationKeyIsReachable") {
  Schema schema;
  add_keys<AugmentOptions>(schema);
  add_keys<AdaptiveOptions>(schema);
  Config config(schema);
  for (const auto& [key, which] : switches()) config.set("ada." + key, .5, "test");
  config.set("ada.imgfilter_band3", 2, "test");
  config.set("ada.kimg", "100", "test");
  const auto o = config.read<AugmentOptions>();
  for (const auto& [key, which] : switches()) CHECK(o.*which == .5);
  CHECK(o.imgfilter_bands == std::array<double, 4>{1, 1, 2, 1});
  CHECK(config.read<AdaptiveOptions>().kimg.images == 100'000);
  CHECK_THROWS_AS(config.set("ada.xflip", -1, "test"), UserError);
  CHECK_THROWS_AS(config.set("ada.cutout_size", 2, "test"), UserError);
  CHECK_THROWS_AS(config.set("ada.interval", 0, "test"), UserError);
}

TEST_CASE("PicturesThatCannotBeAugmentedAreRefused") {
  CHECK_NOTHROW(check_augment(augment_pipe("bgc"), {4, 4}, 1));
  CHECK_NOTHROW(check_augment(augment_pipe("bgcfnc"), {22, 22}, 4));
  CHECK_THROWS_AS(check_augment(augment_pipe("bgcf"), {21, 64}, 3), UserError);
  CHECK_THROWS_AS(check_augment(augment_pipe("bgc"), {64, 64}, 5), UserError);
}
