// SPDX-License-Identifier: Apache-2.0
#include "launch/report.h"

#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>

namespace gantrain {

namespace {

constexpr int64_t kMs = 1'000'000;

RankFailure failed(int64_t rank, int64_t ms, int code, const std::string& message) {
  return {.rank = rank, .pid = 4711, .ns = ms * kMs, .code = code, .message = message};
}

RankFailure killed(int64_t rank, int64_t ms, int signal) {
  return {.rank = rank, .pid = 4711, .ns = ms * kMs, .signal = signal};
}

const char* kGloo = "[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4242";

}  // namespace

TEST_CASE("TheEarliestFailureIsTheCause") {
  const std::vector<RankFailure> failures{
      failed(0, 30, 1, "b"), failed(1, 20, 3, "a"), killed(2, 40, 11)};
  CHECK(first_failure(failures).rank == 1);
}

TEST_CASE("AVictimYieldsToACauseSeenLater") {
  CHECK(first_failure({failed(0, 20, 1, kGloo), killed(1, 25, SIGKILL)}).rank == 1);
  CHECK(first_failure({failed(0, 20, 1, kGloo), failed(1, 900, 3, "bad file")}).rank == 1);
  CHECK(first_failure({failed(0, 20, 1, kGloo), killed(1, 2000, SIGKILL)}).rank == 0);
  CHECK(first_failure({failed(2, 20, 1, kGloo), failed(0, 10, 1, kGloo)}).rank == 0);
}

TEST_CASE("TheWorldsExitCodeIsTheRanksIfItMeansSomething") {
  for (int code = 2; code <= 8; ++code) CHECK(exit_code(failed(0, 0, code, "")) == code);
  CHECK(exit_code(failed(0, 0, 1, "")) == 6);
  CHECK(exit_code(failed(0, 0, 99, "")) == 6);
  CHECK(exit_code(killed(0, 0, SIGSEGV)) == 6);
  CHECK(is_restartable(killed(0, 0, SIGSEGV)));
  CHECK(is_restartable(failed(0, 0, 1, "")));
  CHECK_FALSE(is_restartable(failed(0, 0, 3, "")));
}

TEST_CASE("AReportNamesRankHostPidPhaseAndProgress") {
  RankFailure failure = killed(1, 0, SIGKILL);
  failure.phase = "D backward";
  failure.iteration = 100;
  failure.images_seen = 12345;
  const std::string text = failure_text(failure, "host", 1);
  CHECK_THAT(text,
             Catch::StartsWith("rank 1 (host, pid 4711) died of signal 9 (SIGKILL) in phase \"D "
                               "backward\" at 12.3 kimg"));
  CHECK_THAT(text, Catch::Contains("out-of-memory"));
  CHECK_THAT(failure_text(failed(0, 0, 1, kGloo), "host", 2), Catch::Contains("another node"));
}

TEST_CASE("BadInputBeforeTheFirstIterationIsTheMessageAlone") {
  RankFailure failure = failed(1, 0, 3, "photo.png is broken");
  CHECK(failure_text(failure, "host", 1) == "photo.png is broken");
  failure.iteration = 1;
  CHECK_THAT(failure_text(failure, "host", 1), Catch::StartsWith("rank 1 (host, pid 4711) failed"));
}

TEST_CASE("LongMessagesKeepThreeLines") {
  const std::string text = failure_text(failed(1, 0, 1, "a\nb\nc\nd\ne"), "host", 1);
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
}

}  // namespace gantrain
