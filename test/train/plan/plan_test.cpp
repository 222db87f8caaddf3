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
  CHECK_THROWS_WITH(plan_batch(options(2), 3),
                    Catch::Contains("among 3 ranks: batch 2 feeds at most 2 ranks: --nproc 2; "));
  CHECK_THROWS_WITH(
      plan_batch(options(64), 1024, {.group = 4, .of_node = 8}),
      Catch::Contains("batch 64 feeds at most 64 ranks, 16 with whole groups of 4: --nnodes 2; "));
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

TEST_CASE("GroupsThatAMicroBatchSplitsAreSaid") {
  CHECK(split_groups_text("D", 8, 4).empty());
  CHECK(split_groups_text("D", 3, 1).empty());
  CHECK_THAT(split_groups_text("D", 10, 4), Catch::Contains("groups have 2"));
  CHECK_THAT(split_groups_text("D", 2, 4), Catch::Contains("groups have 2"));
  for (const int64_t size : {1, 5, 7, 11})
    CHECK_THAT(split_groups_text("D", size, 4),
               Catch::Contains("each picture is a group of its own"));
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

TEST_CASE("EachCutOfAShareIsThatOfAPlan") {
  for (const int64_t batch : {12, 47, 64, 96}) {
    for (const int64_t world : {1, 2, 3, 5, 11}) {
      for (const int64_t together : {1, 4}) {
        TrainOptions o = options(batch);
        o.uneven = true;
        o.together = together;
        const RankShare share = share_to_cut(plan_batch(o, world), together);
        for (int64_t images = 1; images <= share.images; ++images) {
          CAPTURE(batch, world, together, images);
          o.micro_batch = images;
          const BatchPlan plan = plan_batch(o, world);
          CHECK(share.has_cut(images) == (plan.micro_batch == images));
          CHECK(share.has_cut(plan.micro_batch));
        }
      }
    }
  }
}

TEST_CASE("UnequalSharesHoldEachSampleOnceAndKeepGroups") {
  for (const int64_t together : {1, 4, 16}) {
    for (const int64_t world : {3, 5, 6, 7}) {
      for (const int64_t accumulate : {1, 2}) {
        TrainOptions uneven = options(32, {}, accumulate);
        uneven.uneven = true;
        uneven.together = together;
        const BatchPlan plan = plan_batch(uneven, world);
        CAPTURE(together, world, accumulate, plan.text());
        std::vector<int64_t> seen(32);
        int64_t images = 0;
        for (int64_t rank = 0; rank < world; ++rank) {
          int64_t of_rank = 0;
          for (int64_t part = 0; part < plan.parts(rank); ++part) {
            const MicroBatch cut = plan.micro_batch_of(rank, part);
            CHECK(cut.count >= 1);
            CHECK(cut.count <= plan.micro_batch);
            of_rank += cut.count;
            for (int64_t i = 0; i < cut.count; ++i)
              ++seen.at(static_cast<size_t>(cut.first + i * cut.stride));
            if (plan.units == 32 || together == 1) continue;
            // Samples that are normalised together on one rank lie 32 / together apart.
            CHECK(plan.units % world != 0);
            if (accumulate == 1) CHECK(cut.count % together == 0);
            CHECK((32 / together) % plan.units == 0);
          }
          CHECK(of_rank == plan.share(rank));
          images += of_rank;
        }
        CHECK(images == 32);
        CHECK(std::ranges::all_of(seen, [](int64_t times) { return times == 1; }));
      }
    }
  }
}

TEST_CASE("UnequalSharesAreSaid") {
  TrainOptions uneven = options(16);
  uneven.uneven = true;
  CHECK(plan_batch(uneven, 3).text() == "batch 16 = 3 ranks x 5 to 6");
  CHECK(plan_batch(uneven, 4).text() == "batch 16 = 4 ranks x 4");
  uneven.together = 4;
  CHECK(plan_batch(uneven, 3).text() == "batch 16 = 3 ranks x 4 to 8, in 4 units of 4");
  CHECK_THROWS_AS(plan_batch(uneven, 17), UserError);
}

// An elastic run of three ranks with 6 images each may have two with 9.
TEST_CASE("InAnUnevenRunAPlayersAccumulationIsComeCloseTo") {
  TrainOptions uneven = options(18);
  uneven.uneven = true;
  CHECK(plan_player(plan_batch(uneven, 3), "D", 2).micro_batch == 3);
  const BatchPlan two = plan_player(plan_batch(uneven, 2), "D", 2);
  CHECK(two.micro_batch * two.accumulate == 9);
  CHECK(two.accumulate >= 2);
}
