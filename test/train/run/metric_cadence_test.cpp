// SPDX-License-Identifier: Apache-2.0
#include "support/catch.h"
#include "train/plan/plan.h"

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
