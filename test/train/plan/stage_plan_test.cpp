// SPDX-License-Identifier: Apache-2.0
#include "config/schema.h"
#include "support/catch.h"
#include "train/plan/plan.h"

using namespace gantrain;

namespace {

struct Keys {
  std::optional<int64_t> accumulate = 4;
};
template <class Field>
void fields(Keys& o, Field&& field) {
  field("D.accumulate", o.accumulate, "");
}

}  // namespace

TEST_CASE("StagesShareTheRunsImagesAndTheLastTakesTheRest") {
  ScheduleOptions growing;
  growing.fade = {6000};
  growing.stable = {4000};
  growing.batch = "4:64,16";
  growing.lr_factor = "1";
  const Schedule schedule = make_schedule(growing, 8);  // 4000, 6000 fading, the rest
  TrainOptions train;
  const auto images = [&](int64_t of_run) {
    train.kimg.images = of_run;
    std::vector<int64_t> all;
    for (const StagePlan& stage : plan_stages(train, schedule, 2)) all.push_back(stage.images);
    return all;
  };
  CHECK(images(30'000) == std::vector<int64_t>{4000, 6000, 20'000});
  CHECK(images(5000) == std::vector<int64_t>{4000, 1000, 0});
  CHECK(images(1000) == std::vector<int64_t>{1000, 0, 0});
  const StagePlan first = plan_stages(train, schedule, 2).front();
  CHECK(first.plan.batch == 64);
  CHECK(first.plan.micro_batch == 32);
  CHECK(first.iterations == schedule.iterations_to(1000));
}

TEST_CASE("AnAccumulationThatALaterStageCannotHaveIsRefusedAndTheStageNamed") {
  ScheduleOptions growing;
  growing.fade = {6000};
  growing.stable = {4000};
  growing.batch = "4:16,4";
  growing.lr_factor = "1";
  Schema schema;
  add_keys<Keys>(schema);
  Config config(schema);
  check_stages({}, config, make_schedule(growing, 8), 1);
  config.set("D.accumulate", 8, "flag --set");
  CHECK_THROWS_WITH(
      check_stages({}, config, make_schedule(growing, 8), 1),
      Catch::Contains("stage 2 of 3: 8 pixels") && Catch::Contains("D.accumulate = 8"));
  TrainOptions ends_before;
  ends_before.kimg.images = 4000;
  check_stages(ends_before, config, make_schedule(growing, 8), 1);
}
