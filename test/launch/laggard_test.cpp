// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/death/death.h"
#include "launch/local/processes.h"
#include "support/catch.h"

using namespace gantrain;

namespace {

RankProgress at(int64_t collectives, int64_t iteration, int64_t heartbeat_ns) {
  return {.collectives = collectives, .iteration = iteration, .heartbeat_ns = heartbeat_ns};
}

}  // namespace

TEST_CASE("TheRankThatDidNotEnterTheCollectiveIsBehindWhoeverWasHeardLast") {
  // Rank 1 was heard last: it began the phase a little later than those that wait in it.
  CHECK(furthest_behind({at(40, 7, 1000), at(39, 7, 1003), at(40, 7, 1001)}) == 1);
  CHECK(furthest_behind({at(39, 7, 1003), at(40, 7, 1000)}) == 0);
}

TEST_CASE("AStoppedRankIsBehindEvenInsideOfTheCollective") {
  RankProgress stopped = at(40, 7, 1003);
  stopped.stopped = true;
  CHECK(furthest_behind({at(40, 7, 1000), at(40, 7, 1001), stopped}) == 2);
  CHECK(is_behind(stopped, at(40, 7, 1000)));
  CHECK_FALSE(is_behind(at(40, 7, 1000), stopped));
}

TEST_CASE("WithoutCollectivesTheIterationDecidesAndThenTheSilence") {
  CHECK(furthest_behind({at(0, 8, 900), at(0, 7, 1000)}) == 1);
  CHECK(furthest_behind({at(0, 7, 1000), at(0, 7, 900)}) == 1);
  CHECK_FALSE(is_behind(at(0, 7, 900), at(0, 7, 1000)));
}

TEST_CASE("AStoppedProcessIsToldFromOneThatSleepsOrIsGone") {
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  CHECK_FALSE(is_stopped(child));
  kill(child, SIGSTOP);
  int status = 0;
  waitpid(child, &status, WUNTRACED);
  CHECK(is_stopped(child));
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  CHECK_FALSE(is_stopped(child));
}
