// SPDX-License-Identifier: Apache-2.0
#include "train/write_pace.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <future>

#include "util/time.h"

using namespace gantrain;

namespace {

constexpr double kHour = 3600;

}  // namespace

TEST_CASE("AWriterRestsThreeTimesAsLongAsItWorked") {
  double used = 5;
  WritePace pace([&] { return used; });
  pace.begin();
  for (const double worked : {0.05, 0.1}) {
    used += worked;
    const double start = monotonic_seconds();
    pace.rest();
    CHECK(monotonic_seconds() - start >= 3 * worked);
  }
}

TEST_CASE("NoRestIsLongerThanTheLongest") {
  double used = 0;
  WritePace pace([&] { return used; }, 0.01);
  pace.begin();
  used = kHour;
  pace.rest();  // returns at all
  SUCCEED();
}

TEST_CASE("WhoWaitsForTheFilesEndsTheRestAndTheLaterOnes") {
  std::atomic<double> used = 0;
  WritePace pace([&] { return used.load(); }, kHour);
  std::future<void> writer = std::async(std::launch::async, [&] {
    pace.begin();
    for (int i = 1; i <= 3; ++i) {
      used = i * kHour;
      pace.rest();
    }
  });
  CHECK(writer.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  pace.hurry();
  writer.get();
}

TEST_CASE("TheNextSaveRestsAgain") {
  double used = 0;
  WritePace pace([&] { return used; });
  pace.hurry();
  pace.relax();
  pace.begin();
  used = 0.05;
  const double start = monotonic_seconds();
  pace.rest();
  CHECK(monotonic_seconds() - start >= 0.15);
}
