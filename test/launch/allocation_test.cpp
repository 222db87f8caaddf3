// SPDX-License-Identifier: Apache-2.0
#include "launch/where/environment.h"
#include "support/catch.h"
#include "util/error.h"

namespace gantrain {

namespace {

constexpr double kNow = 1.8e9;

Env ending_in(double seconds) {
  return {{"SLURM_JOB_END_TIME", std::to_string(static_cast<int64_t>(kNow + seconds))}};
}

LaunchOptions with_margin(double seconds) {
  LaunchOptions options;
  options.time_margin = Duration{seconds};
  return options;
}

}  // namespace

TEST_CASE("ARunStopsItsMarginBeforeTheAllocationEnds") {
  CHECK(allocation_stop(with_margin(60), ending_in(3600), kNow).after == 3540);
  CHECK(allocation_stop({}, ending_in(86400), kNow).after == 86400 - 300);
}

TEST_CASE("AShortAllocationTrainsForNineTenths") {
  CHECK(allocation_stop({}, ending_in(600), kNow).after.value() == Approx(540));
}

TEST_CASE("LessThanTheMarginLeftStopsAtOnce") {
  const AllocationStop stop = allocation_stop(with_margin(600), ending_in(60), kNow);
  CHECK(stop.after == 0);
  CHECK(stop.line.find("--time-margin 10m") != std::string::npos);
  CHECK(allocation_stop(with_margin(600), ending_in(-60), kNow).after == 0);
}

TEST_CASE("WithoutAnEndNothingStopsTheRun") {
  CHECK_FALSE(allocation_stop({}, {}, kNow).after);
  CHECK(allocation_stop({}, {}, kNow).line.empty());
  const AllocationStop asked = allocation_stop(with_margin(60), {{"SLURM_JOB_ID", "7"}}, kNow);
  CHECK_FALSE(asked.after);
  CHECK(asked.line.find("SLURM_JOB_END_TIME") != std::string::npos);
}

TEST_CASE("AMarginOfZeroIsNone") {
  CHECK_FALSE(allocation_stop(with_margin(0), ending_in(60), kNow).after);
}

TEST_CASE("AnEndThatHasPassedIsNotBelieved") {
  const AllocationStop stop = allocation_stop({}, ending_in(-60), kNow);
  CHECK_FALSE(stop.after);
  CHECK(stop.line.find("has passed") != std::string::npos);
}

TEST_CASE("AnEndThatIsNoNumberIsRefused") {
  for (const char* end : {"tomorrow", "-5"}) {
    try {
      allocation_stop({}, {{"SLURM_JOB_END_TIME", end}}, kNow);
      FAIL("nothing was thrown");
    } catch (const UserError& e) {
      CHECK(e.code() == Exit::kEnvironment);
      CHECK(std::string(e.what()).find(std::string("SLURM_JOB_END_TIME=") + end) !=
            std::string::npos);
    }
  }
}

TEST_CASE("AnEndBeyondAllCalendarsNeverComes") {
  CHECK_FALSE(allocation_stop({}, {{"SLURM_JOB_END_TIME", "9223372036854775807"}}, kNow).after);
}

}  // namespace gantrain
