// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "config/schema.h"
#include "config/value.h"
#include "gan/schedule.h"
#include "util/error.h"

using namespace gantrain;

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
  choose_schedule(config, 8, rows());
  CHECK(config.get("schedule.batch") == "64");
  CHECK(config.get("schedule.lr_factor") == "128:1.5,256:2,512:3,1024:3,1");

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

TEST_CASE("NetworksThatDoubleEndAtAPowerOfTwo") {
  for (const int64_t good : {4, 64, 1024}) CHECK_NOTHROW(check_growing_resolution(square_of(good)));
  for (const int64_t bad : {0, 2, 48, 2048})
    CHECK_THROWS_AS(check_growing_resolution(square_of(bad)), UserError);
}
