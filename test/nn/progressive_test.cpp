// SPDX-License-Identifier: Apache-2.0
#include "nn/progressive.h"

#include <ATen/core/Tensor.h>

#include <catch2/catch.hpp>

using namespace gantrain;

TEST_CASE("FeatureMapsAreThePapers") {  // Karras et al. 2018a, table 2
  const FeatureMaps maps;
  for (const auto& [pixels, expected] :
       {std::pair(4, 512), {32, 512}, {64, 256}, {128, 128}, {256, 64}, {512, 32}, {1024, 16}})
    CHECK(maps.at_pixels(pixels) == expected);
  CHECK(maps.at_stage(0) == 512);
  CHECK(FeatureMaps{100, 1, 24}.at_stage(3) == 12);  // rounded down
  CHECK(FeatureMaps{64, 0.5, 512}.at_stage(2) == 32);
  CHECK(FeatureMaps{4, 1, 8}.at_stage(9) == 1);  // never none
}

TEST_CASE("NamesAreTheOfficialOnes") {
  CHECK(block_name(128) == "128x128");
  CHECK(rgb_name("ToRGB", 1024, 1024) == "ToRGB_lod0");
  CHECK(rgb_name("FromRGB", 1024, 4) == "FromRGB_lod8");
  CHECK(doublings(4) == 0);
  CHECK(doublings(1024) == 8);
}

TEST_CASE("ANameMeansTheSameLevelInANetworkOfAnotherSize") {
  const auto file = [](int64_t pixels) {
    std::map<std::string, at::Tensor> tensors = {{"mapping.Dense0.weight", at::Tensor()}};
    for (int64_t side = 4; side <= pixels; side *= 2)
      tensors["D." + block_name(side) + ".Conv0.weight"] = at::Tensor();
    return tensors;
  };
  const auto larger = level_names_in(file(64), 16), smaller = level_names_in(file(8), 16);
  CHECK(larger("ToRGB_lod2.weight") == "ToRGB_lod4.weight");
  CHECK(larger("synthesis.ToRGB_lod0.bias") == "synthesis.ToRGB_lod2.bias");
  CHECK(smaller("FromRGB_lod1.weight") == "FromRGB_lod0.weight");
  CHECK(smaller("FromRGB_lod0.weight").empty());  // it has no such level
  for (const std::string same : {"16x16.Conv1.bias", "mapping.Dense0.weight", "synthesis.noise3"}) {
    CHECK(larger(same) == same);
    CHECK(smaller(same) == same);
  }
  // Its own size, and a file of no network that grows.
  for (const auto& tensors : {file(16), file(0)})
    CHECK(level_names_in(tensors, 16)("ToRGB_lod0.weight") == "ToRGB_lod0.weight");
}

TEST_CASE("BlocksUpToTheLevelTakePartAndTheConvolutionsToRgbOfTheLevel") {
  CHECK(is_active("4x4.Conv.weight", 64, 16, false));
  CHECK(is_active("16x16.Conv1.bias", 64, 16, false));
  CHECK_FALSE(is_active("32x32.Conv1.bias", 64, 16, true));
  CHECK(is_active("ToRGB_lod2.weight", 64, 16, false));
  CHECK_FALSE(is_active("ToRGB_lod3.weight", 64, 16, false));
  CHECK(is_active("ToRGB_lod3.weight", 64, 16, true));
  CHECK_FALSE(is_active("FromRGB_lod1.weight", 64, 16, true));
  CHECK_THROWS(is_active("mapping.Dense0.weight", 64, 16, false));
}

TEST_CASE("OnlyLevelsOfTheNetworkAreTaken") {
  CHECK_NOTHROW(check_level({64, 0}, 64));
  for (const StageLevel& level :
       {StageLevel{128}, StageLevel{2}, StageLevel{0}, StageLevel{12}, StageLevel{-4}})
    CHECK_THROWS(check_level(level, 64));
  CHECK_THROWS(check_level({8, -0.1}, 64));
  CHECK_THROWS(check_level({8, 1.1}, 64));
  CHECK_FALSE(StageLevel{4, 0.5}.fading());  // nothing is below
  CHECK(StageLevel{8, 0}.fading());
  CHECK_FALSE(StageLevel{8, 1}.fading());
}
