// SPDX-License-Identifier: Apache-2.0
#include "launch/local/elastic.h"

#include <cmath>
#include <csignal>

#include "launch/local/spawn.h"
#include "support/catch.h"
#include "util/error.h"
#include "util/system.h"

using namespace gantrain;

namespace {

using Board = std::unique_ptr<RankStatusBoard, RankStatusBoard::Unmap>;

// The place of a slot in its latest generation, as "rank/world".
std::string place_of(const Board& board, int64_t slot, int64_t generation) {
  const auto place = board->roster.place_after(slot, generation - 1);
  if (!place) return "none";
  if (place->dismissed) return "dismissed";
  return std::to_string(place->rank) + "/" + std::to_string(place->world);
}

LaunchOptions elastic(int64_t least, const std::string& plan = "") {
  LaunchOptions options;
  options.nproc_min = least;
  options.rank_plan = plan;
  return options;
}

}  // namespace

TEST_CASE("ARankPlanIsReadAndRefused") {
  const auto plan = parse_rank_plan("0:4,120:3,200:4", 4);
  CHECK(planned_ranks(plan, 0) == 4);
  CHECK(planned_ranks(plan, 119) == 4);
  CHECK(planned_ranks(plan, 120) == 3);
  CHECK(planned_ranks(plan, 1000) == 4);
  CHECK(planned_ranks(parse_rank_plan("", 4), 7) == 0);
  for (const char* wrong : {"1:4", "0:5", "0:0", "0", "0:4,3:2,3:1", "0:4,", "0:a"})
    CHECK_THROWS_AS(parse_rank_plan(wrong, 4), UserError);
}

TEST_CASE("TheRankThatHasComeFurthestIsRank0AfterALoss") {
  const Board board = RankStatusBoard::create(4);
  ElasticRanks ranks(elastic(2), *board);
  for (int64_t slot = 0; slot < 4; ++slot) board->roster.announce(slot, -1);
  ranks.consult();
  for (int64_t slot = 0; slot < 4; ++slot)
    CHECK(place_of(board, slot, 1) == std::to_string(slot) + "/4");
  CHECK_FALSE(board->roster.is_lost(1));

  REQUIRE(ranks.goes_on_without(0, false));
  CHECK(board->roster.is_lost(1));
  board->roster.announce(1, 6);
  board->roster.announce(2, 7);
  ranks.consult();
  CHECK(place_of(board, 1, 2) == "none");  // slot 3 is not there yet
  board->roster.announce(3, 7);
  ranks.consult();
  CHECK(place_of(board, 2, 2) == "0/3");
  CHECK(place_of(board, 1, 2) == "1/3");
  CHECK(place_of(board, 3, 2) == "2/3");
  CHECK_FALSE(board->roster.is_lost(2));
}

TEST_CASE("AReplacementWaitsForABorder") {
  const Board board = RankStatusBoard::create(2);
  ElasticRanks ranks(elastic(1), *board);
  for (int64_t slot = 0; slot < 2; ++slot) board->roster.announce(slot, -1);
  ranks.consult();
  REQUIRE(ranks.goes_on_without(1, false));
  board->roster.announce(0, 3);
  ranks.consult();
  CHECK(place_of(board, 0, 2) == "0/1");
  CHECK(ranks.take_slots_to_start(monotonic_seconds()) == std::vector<int64_t>{1});
  CHECK(ranks.take_slots_to_start(monotonic_seconds()).empty());
  ranks.consult();
  CHECK_FALSE(board->roster.is_wanted(2));
  board->roster.announce(1, -1);
  ranks.consult();
  CHECK(board->roster.is_wanted(2));
  CHECK(place_of(board, 1, 3) == "none");
  board->roster.announce(0, 9);
  ranks.consult();
  CHECK(place_of(board, 0, 3) == "0/2");
  CHECK(place_of(board, 1, 3) == "1/2");
  // A rank that is lost while it waits takes nobody with it.
  REQUIRE(ranks.goes_on_without(1, false));
  CHECK(board->roster.is_lost(3));
  CHECK(ranks.members() == 1);
}

TEST_CASE("FewerThanTheLeastDoNotGoOn") {
  const Board board = RankStatusBoard::create(3);
  ElasticRanks ranks(elastic(2), *board);
  CHECK_FALSE(ranks.goes_on_without(0, false));  // before all have met once
  ElasticRanks others(elastic(2), *board);
  for (int64_t slot = 0; slot < 3; ++slot) board->roster.announce(slot, -1);
  others.consult();
  CHECK(others.goes_on_without(0, false));
  CHECK_FALSE(others.goes_on_without(1, false));
}

TEST_CASE("APlanDismissesAndStartsRanks") {
  const Board board = RankStatusBoard::create(3);
  ElasticRanks ranks(elastic(1, "0:2,5:1,8:3"), *board);
  CHECK(ranks.first_slots() == std::vector<int64_t>{0, 1});
  for (int64_t slot = 0; slot < 2; ++slot) board->roster.announce(slot, -1);
  ranks.consult();
  for (int64_t slot = 0; slot < 2; ++slot) board->roster.announce(slot, 5);
  ranks.consult();
  CHECK(place_of(board, 0, 2) == "0/1");
  CHECK(place_of(board, 1, 2) == "dismissed");
  CHECK(ranks.take_slots_to_start(monotonic_seconds()).empty());
  ranks.goes_on_without(1, true);
  board->roster.announce(0, 8);
  ranks.consult();
  CHECK(place_of(board, 0, 3) == "none");
  CHECK(ranks.take_slots_to_start(monotonic_seconds()) == std::vector<int64_t>{1, 2});
  for (int64_t slot = 1; slot < 3; ++slot) board->roster.announce(slot, -1);
  ranks.consult();
  for (int64_t slot = 0; slot < 3; ++slot)
    CHECK(place_of(board, slot, 3) == std::to_string(slot) + "/3");
  // When all who trained have ended, nobody waits for ever.
  REQUIRE(ranks.goes_on_without(0, true));
}

TEST_CASE("ALauncherWakesForRanksThatTellSomethingAndForPausesThatAreOver") {
  const Board board = RankStatusBoard::create(2);
  // By a plan, too, nothing has to be looked for.
  for (const char* plan : {"", "0:2,5:1"}) {
    CAPTURE(plan);
    ElasticSupervision launcher(elastic(1, plan), *board);
    std::vector<pollfd> polled;
    launcher.watch(polled);
    REQUIRE(polled.size() == 1);
    const auto is_rung = [&] { return ::poll(polled.data(), 1, 0) == 1; };
    CHECK_FALSE(is_rung());
    board->roster.announce(0, -1);
    CHECK(is_rung());
    std::vector<RankProcess> none;
    launcher.look(none, 0);
    CHECK_FALSE(is_rung());
    for (int64_t slot = 0; slot < 2; ++slot) board->roster.forget(slot);
  }
  ElasticRanks ranks(elastic(1), *board);
  for (int64_t slot = 0; slot < 2; ++slot) board->roster.announce(slot, -1);
  ranks.consult();
  CHECK(std::isinf(ranks.next_start()));
  REQUIRE(ranks.goes_on_without(1, false));
  CHECK(ranks.next_start() <= monotonic_seconds());
  CHECK(ranks.take_slots_to_start(monotonic_seconds()) == std::vector<int64_t>{1});
  CHECK(std::isinf(ranks.next_start()));
  REQUIRE(ranks.goes_on_without(1, false));  // again, so that its place stays empty for a while
  const double now = monotonic_seconds();
  CHECK(ranks.next_start() > now);
  CHECK(ranks.take_slots_to_start(now).empty());
}

TEST_CASE("ANodeTakesAllItsRanksWithItAndBringsThemBack") {
  const Board board = RankStatusBoard::create(2);
  LaunchOptions options;
  options.nnodes_min = 1;
  ElasticRanks ranks(options, *board, {true, true, true, true, false, false});
  CHECK(ranks.first_slots() == std::vector<int64_t>{0, 1, 2, 3});
  for (int64_t slot = 0; slot < 4; ++slot) board->roster.announce(slot, -1);
  ranks.consult();
  CHECK(place_of(board, 3, 1) == "3/4");
  CHECK(std::isinf(ranks.next_start()));  // the slots of the third node are nobody's
  REQUIRE(ranks.goes_on_without_node({2, 3}));
  CHECK(board->roster.is_lost(1));
  CHECK(place_of(board, 3, 1) == "none");
  for (int64_t slot = 0; slot < 2; ++slot) board->roster.announce(slot, 5);
  ranks.consult();
  CHECK(place_of(board, 1, 2) == "1/2");
  CHECK(ranks.take_slots_to_start(monotonic_seconds()).empty());
  ranks.admit({4, 5});
  CHECK(ranks.take_slots_to_start(monotonic_seconds()) == std::vector<int64_t>{4, 5});
  for (int64_t slot = 4; slot < 6; ++slot) board->roster.announce(slot, -1);
  ranks.consult();
  REQUIRE(board->roster.is_wanted(2));
  for (int64_t slot = 0; slot < 2; ++slot) board->roster.announce(slot, 9);
  ranks.consult();
  CHECK(place_of(board, 0, 3) == "0/4");
  CHECK(place_of(board, 5, 3) == "3/4");
}

TEST_CASE("ANodeThatIsLostWhileAllLoadIsNotWaitedFor") {
  const Board board = RankStatusBoard::create(1);
  LaunchOptions options;
  options.nnodes_min = 1;
  ElasticRanks ranks(options, *board, {true, true});
  board->roster.announce(0, -1);
  ranks.consult();
  CHECK(place_of(board, 0, 1) == "none");
  CHECK(ranks.goes_on_without_node({1}));
  ranks.consult();
  CHECK(place_of(board, 0, 1) == "0/1");
  options.nnodes_min = 2;
  ElasticRanks both(options, *board, {true, true});
  CHECK_FALSE(both.goes_on_without_node({1}));
}

TEST_CASE("AnotherLauncherGoesOnFromWhatTheRostersTell") {
  const Board board = RankStatusBoard::create(2);  // node 1 of three; its slots are 2 and 3
  Roster& roster = board->roster;
  LaunchOptions options;
  options.nnodes_min = 1;
  for (int64_t slot = 2; slot < 5; ++slot) {
    roster.announce(slot, -1);
    roster.put(slot, {.generation = 3, .rank = slot, .world = 5});
  }
  const std::vector<bool> there = {false, false, true, true, true, true};
  const std::vector<bool> run = {false, false, true, true, true, false};
  SECTION("those who remain of the generation meet again") {
    ElasticRanks ranks(options, *board, there);
    REQUIRE(ranks.take_over(run));
    CHECK(ranks.members() == 3);
    CHECK(roster.is_lost(3));
    ranks.consult();
    for (int64_t slot = 2; slot < 5; ++slot) CHECK(place_of(board, slot, 4) == "none");
    for (int64_t slot = 2; slot < 5; ++slot) roster.announce(slot, slot == 3 ? 8 : 7);
    ranks.consult();
    CHECK(place_of(board, 3, 4) == "0/3");
    CHECK(place_of(board, 2, 4) == "1/3");
    CHECK(ranks.take_slots_to_start(monotonic_seconds()) == std::vector<int64_t>{5});
  }
  SECTION("a generation that not all had heard of is left, too") {
    roster.announce(4, 7);
    roster.put(4, {.generation = 4, .rank = 0, .world = 1});
    roster.set_meeting(5, {"10.0.0.1", 4711});
    ElasticRanks ranks(options, *board, there);
    REQUIRE(ranks.take_over(run));
    CHECK(ranks.members() == 1);
    CHECK(roster.is_lost(4));
    for (int64_t slot = 2; slot < 5; ++slot) roster.announce(slot, 7);
    ranks.consult();
    CHECK(place_of(board, 2, 6) == "0/3");
  }
  SECTION("without one of its members nobody has the memory") {
    ElasticRanks ranks(options, *board, there);
    CHECK_FALSE(ranks.take_over(std::vector<bool>(6)));
    options.nproc_min = 4;
    ElasticRanks too_few(options, *board, there);
    CHECK_FALSE(too_few.take_over(run));
  }
}

TEST_CASE("AStopDoesNotWaitForPlannedRanks") {
  const Board board = RankStatusBoard::create(2);
  ElasticRanks ranks(elastic(1, "0:1,4:2"), *board);
  board->roster.announce(0, -1);
  ranks.consult();
  REQUIRE(place_of(board, 0, 1) == "0/1");
  board->roster.announce(0, 4);
  ranks.consult();
  CHECK(place_of(board, 0, 2) == "none");  // the second is not there yet
  board->stop_request = SIGTERM;
  ranks.consult();
  CHECK(place_of(board, 0, 2) == "0/1");
}

TEST_CASE("AtAStopNobodyWaitsForAMemberThatHasBeenKilled") {
  const Board board = RankStatusBoard::create(2);
  ElasticSupervision launcher(elastic(1), *board);
  launcher.first_slots();
  for (int64_t slot = 0; slot < 2; ++slot) board->roster.announce(slot, -1);
  std::vector<RankProcess> none;
  launcher.look(none, 0);
  REQUIRE(place_of(board, 1, 1) == "1/2");
  board->stop_request = SIGTERM;
  CHECK_FALSE(launcher.goes_on_without(true, SIGKILL, {.rank = 1, .signal = SIGKILL}));
  CHECK(board->roster.is_lost(1));
}

TEST_CASE("WhereTheFirstRanksCannotStartNoneBegins") {
  const std::string plan = GENERATE("", "0:2");
  const Board board = RankStatusBoard::create(2);
  ElasticRanks ranks(elastic(1, plan), *board);
  ranks.could_not_start({1});
  board->roster.announce(0, -1);
  ranks.consult();
  CHECK(place_of(board, 0, 1) == "none");
  board->roster.forget(0);
  ranks.could_not_start({0});
  ranks.consult();
  CHECK_FALSE(ranks.has_processes());
}

TEST_CASE("WhoTakesOverWithARankThatLoadsKnowsThatTheMemoryIsLost") {
  const Board board = RankStatusBoard::create(1);
  ElasticRanks before(elastic(1), *board, {true, true});
  CHECK(before.take_over({false, true}));  // the run has not begun
  board->roster.set_meeting(1, {"10.0.0.1", 4711});
  ElasticRanks after(elastic(1), *board, {true, true});
  CHECK_FALSE(after.take_over({false, true}));
}

TEST_CASE("RostersOfTwoNodesTellEachOtherWhatTheirRanksNeed") {
  const Board head = RankStatusBoard::create(1), other = RankStatusBoard::create(1);
  head->roster.begin(-1, "10.0.0.1");
  other->roster.begin(-1, "10.0.0.2");
  other->roster.announce(1, 7);
  head->roster.take_seats(1, other->roster.news(1, 1));
  CHECK(head->roster.announced(1) == 1);
  CHECK(head->roster.border(1) == 7);
  head->roster.put(1, {.generation = 3, .rank = 1, .world = 2});
  head->roster.lose(2);
  CHECK_FALSE(other->roster.meeting(3));
  head->roster.set_meeting(3, {"10.0.0.1", 4711});
  other->roster.take_places(1, head->roster.news(1, 1));
  CHECK(place_of(other, 1, 3) == "1/2");
  CHECK(other->roster.is_lost(2));
  CHECK_FALSE(other->roster.is_lost(3));
  REQUIRE(other->roster.meeting(3));
  CHECK(other->roster.meeting(3)->host == "10.0.0.1");
  CHECK(other->roster.meeting(3)->port == 4711);
  CHECK_FALSE(other->roster.meeting(2));
}

TEST_CASE("WhatNodesMayBeIsChecked") {
  const RankInfo two{.local_world = 2, .nodes = 2};
  LaunchOptions options;
  options.nnodes_min = 2;
  check_elastic(options, two);
  options.nnodes_min = 3;
  CHECK_THROWS_AS(check_elastic(options, two), UserError);
  options.nnodes_min = 1;
  options.rank_plan = "0:4,3:1";
  check_elastic(options, two);
  options.rank_plan = "0:5";
  CHECK_THROWS_AS(check_elastic(options, two), UserError);
  options.rank_plan = "";
  CHECK_THROWS_AS(check_elastic(options, {.local_world = 8, .nodes = 33}), UserError);
}
