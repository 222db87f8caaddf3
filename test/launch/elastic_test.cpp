// SPDX-License-Identifier: Apache-2.0
#include "launch/local/elastic.h"

#include <cmath>

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
