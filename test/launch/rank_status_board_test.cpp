// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/local/rank.h"
#include "support/catch.h"

namespace gantrain {

TEST_CASE("WhatARankWroteIsReadableAfterItsDeath") {
  const auto board = RankStatusBoard::create(3);
  const pid_t pid = fork();
  if (pid == 0) {
    RankSlot& slot = board->slot(2);
    slot.set_phase("D backward");
    slot.beat(12, 34);
    slot.report_failure(Exit::kInput, "photo.png is broken");
    raise(SIGKILL);
  }
  waitpid(pid, nullptr, 0);
  const RankSlot& slot = board->slot(2);
  CHECK(slot.phase() == "D backward");
  CHECK(slot.iteration() == 12);
  CHECK(slot.images_seen() == 34);
  CHECK(slot.heartbeat_ns() > 0);
  REQUIRE(slot.failure());
  CHECK(slot.failure()->code == Exit::kInput);
  CHECK(slot.failure()->message == "photo.png is broken");
  CHECK_FALSE(board->slot(1).failure());
  CHECK(board->slot(1).heartbeat_ns() == 0);
}

TEST_CASE("RanksThatMeetOnceMoreHaveTrained") {
  const auto board = RankStatusBoard::create(2);
  board->slot(0).set_phase("rendezvous");
  board->slot(1).set_phase("start-up");
  CHECK(board->all_meet());
  board->slot(1).set_phase("set-up");
  CHECK_FALSE(board->all_meet());
  board->slot(1).set_phase("start-up");
  board->slot(0).beat(12, 192);
  CHECK_FALSE(board->all_meet());
}

TEST_CASE("TheFirstReportOfAFailureStays") {
  const auto board = RankStatusBoard::create(1);
  board->slot(0).report_failure(Exit::kDisk, "first");
  board->slot(0).report_failure(Exit::kInternal, "second");
  CHECK(board->slot(0).failure()->message == "first");
}

TEST_CASE("LongTextsAreCut") {
  const auto board = RankStatusBoard::create(1);
  RankSlot& slot = board->slot(0);
  slot.set_phase(std::string(100, 'p'));
  CHECK(slot.phase() == std::string(RankTrace::kPhaseBytes - 1, 'p'));
  slot.set_phase("G");
  CHECK(slot.phase() == "G");
  slot.report_failure(Exit::kInput, std::string(10000, 'm'));
  CHECK(slot.failure()->message.size() == RankSlot::kMessageBytes - 1);
}

TEST_CASE("TheFirstCrashIsKeptWithTheBeginningOfItsStack") {
  const auto board = RankStatusBoard::create(1);
  RankSlot& slot = board->slot(0);
  CHECK(!slot.crash());
  slot.report_crash(SIGSEGV, std::string(20000, 's'));
  slot.report_crash(SIGABRT, "second");
  REQUIRE(slot.crash());
  CHECK(slot.crash()->signal == SIGSEGV);
  CHECK(slot.crash()->stack == std::string(RankSlot::kStackBytes - 1, 's'));
}

TEST_CASE("AStopRequestIsSeenByTheOtherProcess") {
  const auto board = RankStatusBoard::create(1);
  const pid_t pid = fork();
  if (pid == 0) {
    while (board->stop_request == 0) usleep(200);
    _exit(board->stop_request);
  }
  board->stop_request = SIGINT;
  int status = 0;
  waitpid(pid, &status, 0);
  CHECK(WEXITSTATUS(status) == SIGINT);
}

}  // namespace gantrain
