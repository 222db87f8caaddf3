// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <utility>
#include <vector>

#include "config/config.h"
#include "config/schema.h"
#include "distributed/options.h"
#include "support/catch.h"
#include "train/options.h"
#include "train/plan/plan.h"
#include "train/run/run_requests.h"

using namespace gantrain;

TEST_CASE("AGivenCadenceIsKeptWhateverItCosts") {
  const MetricCadence cadence(Kimg{100}, Kimg{1000});
  CHECK(cadence.images() == 100);
  CHECK_FALSE(cadence.may_be_due(0, 99));
  CHECK(cadence.may_be_due(99, 100));
  CHECK(cadence.may_be_due(199, 432));
  CHECK_FALSE(cadence.may_be_due(200, 299));
  CHECK(cadence.affords({.run = 1, .metrics = 1000, .last = 1000}));
}

TEST_CASE("WithoutOneThereAreTwentyChancesAndNoneWithinLessThanARunNeeds") {
  CHECK(MetricCadence({}, Kimg{40'000}).images() == 2'000);
  CHECK(MetricCadence({}, Kimg{25'000'000}).images() == 200'000);
  CHECK(MetricCadence({}, Kimg{0}).images() == 1);
}

TEST_CASE("AllMeasurementsOfALongRunTakeUnderThreePercent") {
  // A step is a chance; training to the next one takes a second, a measurement three.
  const MetricCadence cadence({}, Kimg{40'000'000});
  MetricTimes times{.run = 3, .metrics = 3, .last = 3};  // measured at the start
  int64_t measured = 0;
  for (int64_t chance = 0; chance < 2000; ++chance) {
    times.run += 1;
    if (!cadence.affords(times)) continue;
    times.run += 3;
    times.metrics += 3;
    ++measured;
    CHECK(times.metrics / times.run < MetricCadence::kLargestShare);
  }
  // It uses what it may: 3 % of 2000 seconds are 20 times 3 seconds.
  CHECK(measured >= 18);
  CHECK(measured <= 20);
}

TEST_CASE("WhatItCostsIsFoundOutByTheFirstMeasurement") {
  CHECK(MetricCadence({}, Kimg{40'000}).affords({.run = 10}));
}

TEST_CASE("APresetsCadenceIsTheLeastThatIsAdapted") {
  const MetricCadence cadence(Kimg{20'000}, Kimg{1'000'000}, /*adapts=*/true);
  CHECK(cadence.images() == 20'000);
  CHECK_FALSE(cadence.affords({.run = 100, .metrics = 2, .last = 2}));
  CHECK(cadence.affords({.run = 200, .metrics = 2, .last = 2}));
}

namespace {

Config cadences(const std::map<std::string, Json>& given) {
  Schema schema;
  add_keys<TrainOptions>(schema);
  add_keys<DistOptions>(schema);
  add_keys<SampleOptions>(schema);
  add_keys<SaveOptions>(schema);
  Config config(schema);
  for (const auto& [key, value] : given) config.set(key, value, "test");
  return config;
}

// What an hour of training with 8,192 images each 0.0273 s does beside it, on a clock of its own.
struct Hour {
  std::map<Chores::Kind, std::vector<double>> began;
  std::map<Chores::Kind, double> spent;

  explicit Hour(const std::map<std::string, Json>& given, int64_t heard_after = 1) {
    Chores chores(cadences(given));
    double now = 1000;
    RankRequests heard, waiting;
    for (int64_t i = 0, images = 0; now < 4600; ++i) {
      RankRequests said;
      chores.note_affordable(said, now, i);
      if (i % heard_after == 0) heard = heard_after == 1 ? said : std::exchange(waiting, said);
      now += 0.0273;
      const int64_t before = images;
      images += 8192;
      const auto due = [&](Chores::Kind kind, int64_t every, double seconds) {
        if (!crossed(before, images, every) || !chores.takes(kind, heard, i + 1)) return;
        began[kind].push_back(now);
        spent[kind] += seconds;
        chores.did(kind, now, now + seconds);
        now += seconds;
      };
      due(Chores::kTick, 4'000, 0.005);
      due(Chores::kCheck, 16'000, 0.3);
      due(Chores::kSample, 40'000, 0.2);
      due(Chores::kSave, 200'000, 1);
    }
  }
};

}  // namespace

TEST_CASE("AFastRunSpendsUnderThreePercentBesideTraining") {
  // Also where all ranks hear of what rank 0 says much later, as on GPUs.
  for (const int64_t heard_after : {1, 13}) {
    CAPTURE(heard_after);
    const Hour hour({}, heard_after);
    double all = 0;
    for (const auto& [kind, seconds] : hour.spent) {
      CHECK(seconds > 0);
      CHECK(seconds / 3600 < 0.01);
      all += seconds;
    }
    CHECK(all / 3600 < 0.03);
    // It uses what it may.
    CHECK(all / 3600 > 0.024);
    const std::vector<double>& ticks = hour.began.at(Chores::kTick);
    CHECK(ticks.size() > 550);
    for (size_t i = 1; i < ticks.size(); ++i) {
      if (ticks[i] - ticks[i - 1] < Chores::kBetweenTicks) FAIL("two ticks within 5 s");
    }
  }
}

TEST_CASE("WhatSomebodyHasAskedForIsDoneAsOftenAsThat") {
  const Hour hour({{"train.tick", 4.0}, {"samples.every", 40.0}});
  CHECK(hour.began.at(Chores::kTick).size() > 10 * Hour({}).began.at(Chores::kTick).size());
  CHECK(hour.spent.at(Chores::kSample) / 3600 > 0.2);
  CHECK(hour.spent.at(Chores::kSave) / 3600 < 0.01);
  // States that are kept for ever have their times.
  CHECK(Hour({{"save.keep_every", 200.0}}).spent.at(Chores::kSave) / 3600 > 0.2);
}
