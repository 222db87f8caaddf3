// SPDX-License-Identifier: Apache-2.0
#include "support/catch.h"
#include "train/plan/plan.h"

using namespace gantrain;

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
