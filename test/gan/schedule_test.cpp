// SPDX-License-Identifier: Apache-2.0
#include "gan/schedule.h"

#include <catch2/catch.hpp>

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
