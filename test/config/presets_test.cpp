// SPDX-License-Identifier: Apache-2.0
#include "config/config.h"
#include "support/catch.h"
#include "support/paths.h"
#include "util/error.h"
#include "util/file.h"

using namespace gantrain;

TEST_CASE("EveryPresetHasARecipeAndALineAboutIt") {
  CHECK(preset_names().size() >= 4);
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

TEST_CASE("TheProgramHoldsThePresetsByteForByte") {
  const fs::path folder = fs::path(source_folder()) / "presets";
  size_t found = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    CAPTURE(entry.path());
    CHECK(preset_files().at(entry.path().filename().string()) == read_file(entry.path()));
    ++found;
  }
  CHECK(found == preset_files().size());
}
