// SPDX-License-Identifier: Apache-2.0
#include "train/plan/plan.h"

#include "support/catch.h"
#include "util/error.h"

using namespace gantrain;

namespace {
TrainOptions options(int64_t batch,
                     std::optional<int64_t> micro = {},
                     std::optional<int64_t> accumulate = {}) {
  TrainOptions o;
  o.batch = batch;
  o.micro_batch = micro;
  o.accumulate = accumulate;
  return o;
}
}  // namespace

TEST_CASE("TheGlobalBatchIsRanksTimesMicroBatchTimesAccumulation") {
  for (const int64_t world : {1, 2, 3, 4, 6}) {
    for (const int64_t accumulate : {1, 2}) {
      const BatchPlan plan = plan_batch(options(24, {}, accumulate), world);
      CHECK(plan.batch == plan.world * plan.micro_batch * plan.accumulate);
      CHECK(plan.accumulate == accumulate);
    }
  }
  CHECK(plan_batch(options(24, 3), 2).accumulate == 4);
  CHECK(plan_batch(options(24, 3), 2).text() == "batch 24 = 2 ranks x 4 accumulated x 3");
}

TEST_CASE("ASlowIterationSaysWhenSaveAndStopAreObeyed") {
  CHECK(obeyed_text(0.01).empty());
  CHECK(obeyed_text(0.25).empty());
  CHECK(obeyed_text(0.6) == "; SAVE and STOP are obeyed within 2s");
  CHECK(obeyed_text(60) == "; SAVE and STOP are obeyed within 3m01s");
}

TEST_CASE("WhatDoesNotDivideIsRefusedWithWhatWould") {
  CHECK_THROWS_WITH(plan_batch(options(64), 3), Catch::Contains("--batch 63 or 66"));
  CHECK_THROWS_WITH(plan_batch(options(2), 3), Catch::Contains("--batch 3"));
  CHECK_THROWS_WITH(plan_batch(options(8, {}, 3), 1), Catch::Contains("train.accumulate = 3"));
  CHECK_THROWS_WITH(plan_batch(options(8, 16), 1), Catch::Contains("train.micro_batch = 16"));
  CHECK_THROWS_AS(plan_batch(options(8, 4, 4), 1), UserError);
}

TEST_CASE("APlayerMayAccumulateByItself") {
  const BatchPlan plan = plan_batch(options(64), 2);
  CHECK(plan_player(plan, "G", 8).micro_batch == 4);
  CHECK(plan_player(plan, "G", {}).micro_batch == 32);
  CHECK_THROWS_WITH(plan_player(plan, "G", 5), Catch::Contains("G.accumulate = 5"));
}

TEST_CASE("NamesCountKimg") {
  CHECK(kimg_name(200'000, false) == "000200");
  CHECK(kimg_name(160, true) == "000000.160");
  TrainOptions train;
  SaveOptions save;
  CHECK_FALSE(needs_fractions(train, save));
  save.every.images = 500;
  CHECK(needs_fractions(train, save));
}

TEST_CASE("AStagesSmallerBatchIsCutIntoWhatARankHas") {
  const TrainOptions o = options(64, 8);
  CHECK(plan_stage(o, 64, 2, "stage").accumulate == 4);
  CHECK(plan_stage(o, 8, 2, "stage").micro_batch == 4);
  CHECK_THROWS_WITH(plan_stage(options(64), 9, 2, "stage 3"),
                    Catch::StartsWith("stage 3: ") && Catch::Contains("2 ranks"));
}
