// SPDX-License-Identifier: Apache-2.0
#include "gan/schedule.h"

#include <cmath>

#include "config/schema.h"
#include "config/value.h"
#include "support/catch.h"
#include "util/error.h"

using namespace gantrain;

namespace {

ScheduleOptions small() {
  ScheduleOptions o;
  o.fade = {6000};
  o.stable = {4000};
  o.batch = "4:64,8:32,16";
  o.lr_factor = "16:1.5,1";
  return o;
}

}  // namespace

TEST_CASE("EachResolutionAfterTheFirstIsFadedInThenTrained") {
  const Schedule schedule = make_schedule(small(), 16);
  struct Row {
    int64_t first, resolution, batch;
    bool fading;
    double lr_factor;
  };
  const Row expected[] = {{0, 4, 64, false, 1},
                          {4000, 8, 32, true, 1},
                          {10000, 8, 32, false, 1},
                          {14000, 16, 16, true, 1.5},
                          {20000, 16, 16, false, 1.5}};
  REQUIRE(schedule.stages().size() == std::size(expected));
  for (size_t i = 0; i < std::size(expected); ++i) {
    const Stage& stage = schedule.stages()[i];
    CAPTURE(i);
    CHECK(stage.first == expected[i].first);
    CHECK(stage.resolution == expected[i].resolution);
    CHECK(stage.batch == expected[i].batch);
    CHECK(stage.fading == expected[i].fading);
    CHECK(stage.lr_factor == expected[i].lr_factor);
    CHECK(schedule.stage_at(stage.first) == static_cast<int64_t>(i));
    if (i > 0) CHECK(schedule.stage_at(stage.first - 1) == static_cast<int64_t>(i) - 1);
  }
  CHECK(schedule.stage_at(int64_t{1} << 40) == 4);
}

TEST_CASE("AlphaGrowsFromZeroToOneInAFadeAndIsOneElsewhere") {
  const Schedule schedule = make_schedule(small(), 16);
  CHECK(schedule.alpha_at(0) == 1);
  CHECK(schedule.alpha_at(4000) == 0);
  CHECK(schedule.alpha_at(7000) == 0.5);
  CHECK(schedule.alpha_at(9999) == Approx(1).margin(2e-4));
  CHECK(schedule.alpha_at(10000) == 1);
  CHECK(schedule.alpha_at(20000) == 1);
}

// 32-bit floats lose images at 12 million of them.
TEST_CASE("NoImageIsLostInLongRuns") {
  ScheduleOptions o;
  o.batch = "4";
  o.lr_factor = "1";
  const Schedule schedule = make_schedule(o, 1024);
  CHECK(schedule.stages().back().first == 9'600'000);
  CHECK(schedule.alpha_at(schedule.stages()[1].first + 1) == Approx(1.0 / 600'000));
}

TEST_CASE("WithoutAFadeResolutionsFollowAtOnce") {
  ScheduleOptions o = small();
  o.fade = {0};
  const Schedule schedule = make_schedule(o, 16);
  CHECK(schedule.stages().size() == 3);
  CHECK(schedule.alpha_at(4000) == 1);
}

TEST_CASE("ABrokenTableIsRefusedByItsKey") {
  for (const char* bad : {"", "4:", "x", "4:2:1", "4:64,4:32,8", "4:-1,2", "16,8", "2:4,8"}) {
    ScheduleOptions o = small();
    o.batch = bad;
    CAPTURE(bad);
    CHECK_THROWS_WITH(make_schedule(o, 16), Catch::Contains("schedule.batch"));
  }
  ScheduleOptions o = small();
  o.batch = "4:64,8:32";
  CHECK_THROWS_WITH(make_schedule(o, 16), Catch::Contains("16 pixels"));
  o = small();
  o.batch = "2.5";
  CHECK_THROWS_WITH(make_schedule(o, 16), Catch::Contains("2.5"));
  o = small();
  o.start = 32;
  CHECK_THROWS_WITH(make_schedule(o, 16), Catch::Contains("schedule.start"));
}

TEST_CASE("IterationsAreCountedAcrossStagesThatABatchGoesOver") {
  const Schedule schedule = make_schedule(small(), 16);
  // By hand: 63 x 64 = 4032 images; 187 x 32 to 10016; 125 x 32 to 14016; 374 x 16 to 20000.
  CHECK(schedule.iterations_to(4000) == 63);
  CHECK(schedule.iterations_to(10'000) == 63 + 187);
  CHECK(schedule.iterations_to(20'000) == 63 + 187 + 125 + 374);
  CHECK(schedule.iterations_to(20'017) == 63 + 187 + 125 + 374 + 2);
  CHECK(schedule.iterations_to(0) == 0);
  CHECK(schedule.name_of(3) == "stage 4 of 5: 16 pixels, fading in");
}

namespace {

struct Keys {
  int64_t batch = 64;
  std::string lr_scale = "none";
  int64_t resolution = 1024;
  ScheduleOptions schedule;
};

template <class Field>
void fields(Keys& o, Field&& field) {
  field("train.batch", o.batch, at_least(1), "");
  field("train.lr_scale", o.lr_scale, "");
  field("data.resolution", o.resolution, at_least(4), "");
  field("schedule", o.schedule, "");
}

Config config_of() {
  Schema schema;
  add_keys<Keys>(schema);
  return Config(schema);
}

// Batches for 1, 2 and 8 ranks.
std::vector<ScheduleRow> rows() {
  return {{1, "4:128,8:128,16:128,32:64,64:32,128:16,256:8,512:4,4", "1024:1.5,1"},
          {2, "4:256,8:256,16:128,32:64,64:32,128:16,8", "512:1.5,1024:2,1"},
          {8, "4:512,8:256,16:128,32:64,32", "128:1.5,256:2,512:3,1024:3,1"}};
}

std::string chosen(int64_t ranks, const std::string& key) {
  Config config = config_of();
  choose_schedule(config, ranks, rows());
  return text_of(config.get(key));
}

}  // namespace

TEST_CASE("BatchesAndRatesAreThoseOfTheTableForSoManyRanks") {
  CHECK(chosen(1, "schedule.batch") == "4:128,8:128,16:128,32:64,64:32,128:16,256:8,512:4,4");
  CHECK(chosen(8, "schedule.batch") == "4:512,8:256,16:128,32:64,32");
  CHECK(chosen(4, "schedule.lr_factor") == "512:1.5,1024:2,1");  // as from 2 ranks on
  CHECK(chosen(8, "train.batch") == "512");                      // the first stage's
}

TEST_CASE("AnyNumberOfRanksDividesItsBatches") {
  for (int64_t ranks = 1; ranks <= 40; ++ranks) {
    CAPTURE(ranks);
    Config config = config_of();
    choose_schedule(config, ranks, rows());
    for (const Stage& stage : schedule_of(config).stages()) {
      CHECK(stage.batch % ranks == 0);
      const int64_t of_rank = stage.batch / ranks;
      CHECK((of_rank < 4 || of_rank % 4 == 0));
    }
  }
  CHECK(chosen(3, "schedule.batch") == "4:252,8:252,16:120,32:60,64:24,128:12,6");
}

TEST_CASE("ABatchOfTheUsersReplacesTheTableAndRatesFollowOnlyWhenAsked") {
  Config config = config_of();
  config.set("train.batch", 64, "flag --batch");
  const auto lines = choose_schedule(config, 8, rows());
  CHECK(config.get("schedule.batch") == "64");
  CHECK(config.get("schedule.lr_factor") == "128:1.5,256:2,512:3,1024:3,1");
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] ==
        "batch   64 instead of 4:512,8:256,16:128,32:64,32: learning rates stay "
        "(--lr-scale linear|sqrt scales them)");

  Config linear = config_of();
  linear.set("train.batch", 64, "flag --batch");
  linear.set("train.lr_scale", "linear", "flag --lr-scale");
  choose_schedule(linear, 8, rows());
  const Schedule schedule = schedule_of(linear);
  CHECK(schedule.stages().front().lr_factor == 64.0 / 512);
  CHECK(schedule.stages().back().lr_factor == 3.0 * 64 / 32);
}

TEST_CASE("WhatWasChosenOrGivenStays") {
  Config config = config_of();
  config.set("schedule.batch", "8", "flag --set");
  choose_schedule(config, 8, rows());
  CHECK(config.get("schedule.batch") == "8");
  CHECK(config.get("train.batch") == 8);
  const std::string rates = text_of(config.get("schedule.lr_factor"));
  choose_schedule(config, 1, rows());
  CHECK(text_of(config.get("schedule.lr_factor")) == rates);
}

TEST_CASE("ABatchThatFollowsFromAPresetsTableIsNotTheUsers") {
  Config config = config_of();
  config.set("schedule.batch", "4:32,8:16,8", "preset own.json");
  choose_schedule(config, 1, rows());
  REQUIRE(config.get("train.batch") == 32);
  Config resumed = config_of();
  resumed.set("schedule.batch", "4:32,8:16,8", "preset own.json");
  resumed.set("train.batch", 32, config.origin("train.batch"));  // as the run began
  choose_schedule(resumed, 1, rows());
  CHECK(resumed.get("schedule.batch") == "4:32,8:16,8");
}

TEST_CASE("ABatchOfTheCommandGoesBeforeATableOfAFile") {
  Config config = config_of();
  config.set("schedule.batch", "4:32,8", "file run/config.json");
  config.set("schedule.lr_factor", "1", "file run/config.json");
  config.set("train.batch", 64, "flag --batch");
  config.set("train.lr_scale", "linear", "flag --lr-scale");
  choose_schedule(config, 1, rows());
  CHECK(config.get("schedule.batch") == "64");
  const Schedule schedule = schedule_of(config);
  CHECK(schedule.stages().front().lr_factor == 2);
  CHECK(schedule.stages().back().lr_factor == 8);

  Config both = config_of();
  both.set("schedule.batch", "4:32,8", "flag --set");
  both.set("train.batch", 64, "flag --batch");
  CHECK_THROWS_WITH(choose_schedule(both, 1, rows()),
                    Catch::Contains("train.batch = 64 (flag --batch)") &&
                        Catch::Contains("schedule.batch = 4:32,8 (flag --set)"));
}

TEST_CASE("OfAFileWithBothTheTableCounts") {
  Config config = config_of();
  config.set("schedule.batch", "4:32,8", "file run/config.json");
  config.set("train.batch", 32, "file run/config.json");
  choose_schedule(config, 1, rows());
  CHECK(config.get("schedule.batch") == "4:32,8");
}

TEST_CASE("NetworksThatDoubleEndAtAPowerOfTwo") {
  for (const int64_t good : {4, 64, 1024}) CHECK_NOTHROW(check_growing_resolution(square_of(good)));
  for (const int64_t bad : {0, 2, 48, 2048})
    CHECK_THROWS_AS(check_growing_resolution(square_of(bad)), UserError);
}

TEST_CASE("TheFullSizeIsDrawnUnlessALevelIsNamed") {
  const std::vector<int64_t> levels = levels_up_to(32);
  CHECK(levels == std::vector<int64_t>{4, 8, 16, 32});
  SynthesisOptions options;
  CHECK(level_of(options, levels) == 32);
  options.level = 8;
  CHECK(level_of(options, levels) == 8);
  options.level = 64;
  CHECK_THROWS_WITH(level_of(options, levels), Catch::Contains("4, 8, 16, 32"));
  options = {};
  options.alpha = std::nan("");
  CHECK_THROWS_AS(level_of(options, levels), UserError);
}
