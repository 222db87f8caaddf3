// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "config/config.h"
#include "util/error.h"

using namespace gantrain;

TEST_CASE("EveryPresetHasARecipeAndALineAboutIt") {
  CHECK(presets().size() >= 4);
  for (const std::string& name : preset_names()) {
    CAPTURE(name);
    CHECK_FALSE(preset_recipe(name).empty());
    CHECK_FALSE(preset_about(name).empty());
  }
}

TEST_CASE("BasesComeFirst") {
  const std::vector<PresetLayer> layers = preset_layers("lsgan");
  REQUIRE(layers.size() == 2);
  CHECK(layers[0].name == "dcgan");
  CHECK(layers[1].name == "lsgan");
  CHECK_FALSE(layers[1].values.contains("base"));
}

TEST_CASE("AnUnknownPresetNamesTheNearest") {
  CHECK_THROWS_WITH(preset_layers("dcgam"), Catch::Contains("did you mean dcgan"));
}
