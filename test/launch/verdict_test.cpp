// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include "launch/death/death.h"
#include "support/catch.h"

namespace gantrain {

namespace {

using Kind = Death::Kind;

constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kSecond = 1000 * kMillisecond;

const char* const kLost = "Connection closed by peer";
const char* const kVain = "Timed out waiting 2000ms";
const char* const kNcclVain =
    "[Rank 0] Process group watchdog thread terminated with exception: Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=7) ran for 600021 milliseconds before timing out.";

Death died(int64_t rank, int64_t ms, int code, const std::string& message) {
  return {.host = "h",
          .rank = rank,
          .pid = 1,
          .ns = ms * kMillisecond,
          .code = code,
          .message = message,
          .phase = "D backward"};
}

Death killed_at(int64_t rank, int64_t ms, int signal = SIGKILL) {
  Death death = died(rank, ms, 0, "");
  death.signal = signal;
  return death;
}

Death aborted_at(int64_t rank, int64_t ms, const std::string& message) {
  Death death = died(rank, ms, 1, message);
  death.signal = SIGABRT;
  return death;
}

Death at_collective(Death death, int64_t collectives) {
  death.progress.collectives = collectives;
  return death;
}

Death alive(int64_t rank, int64_t collectives) {
  Death death = at_collective(died(rank, 0, 0, ""), collectives);
  death.kind = Kind::kAlive;
  death.iteration = death.progress.iteration = 7;
  return death;
}

Death hang(int64_t rank, int64_t ms, int64_t collectives) {
  Death death = alive(rank, collectives);
  death.kind = Kind::kHang;
  death.ns = ms * kMillisecond;
  death.hang_timeout = 3;
  return death;
}

Death of_loader(int64_t ms, int code, const std::string& message) {
  return {.kind = Kind::kLoader, .ns = ms * kMillisecond, .code = code, .message = message};
}

Death on_node(int64_t node, Death death) {
  death.node = node;
  return death;
}

Death lost(int64_t node, int64_t ms) {
  return {.kind = Kind::kLauncher,
          .node = node,
          .ns = ms * kMillisecond,
          .message = "node " + std::to_string(node) + " (h): its launcher is gone"};
}

constexpr int64_t kNone = -1;

struct Row {
  const char* law;
  int64_t nodes;
  std::vector<Death> deaths;
  int64_t first;  // the rank, or kNone
  int code;
  std::string error;  // how the world's error begins
};

std::vector<Row> rows() {
  const std::string vain = "; rank 0 waited for it in vain: " + std::string(kVain);
  return {
      {"the earliest is the cause",
       1,
       {died(0, 30, 1, "b"), died(1, 20, 3, "a"), killed_at(2, 40, SIGSEGV)},
       1,
       3,
       "a"},
      {"a victim yields to a killed rank",
       1,
       {died(0, 20, 1, kLost), killed_at(1, 25)},
       1,
       6,
       "rank 1 (h, pid 1) died of signal 9 (SIGKILL)"},
      {"a victim yields for a second",
       1,
       {died(0, 20, 1, kLost), died(1, 900, 3, "bad file")},
       1,
       3,
       "bad file"},
      {"and no longer", 1, {died(0, 20, 1, kLost), killed_at(1, 2000)}, 0, 6, "rank 0 (h, pid 1)"},
      {"of victims it is the earliest",
       1,
       {died(2, 20, 1, kLost), died(0, 10, 1, kLost)},
       0,
       6,
       "rank 0 (h, pid 1) failed"},
      {"an abort by NCCL's watchdog yields",
       1,
       {aborted_at(0, 20, kNcclVain), died(1, 900, 3, "bad file")},
       1,
       3,
       "bad file"},
      {"a rank that was waited for in vain is named",
       1,
       {at_collective(died(0, 20, 1, kVain), 40), alive(1, 39)},
       1,
       6,
       "rank 1 (h, pid 1) is behind, in phase \"D backward\" at iteration 7" + vain},
      {"but not if it is not certainly behind",
       1,
       {at_collective(died(0, 20, 1, kVain), 40), alive(1, 40)},
       0,
       6,
       "rank 0 (h, pid 1) failed in phase \"D backward\" before the first iteration: " +
           std::string(kVain)},
      {"nor if the first one lost a peer",
       1,
       {died(2, 10, 1, kLost), at_collective(died(0, 20, 1, kVain), 40), alive(1, 39)},
       2,
       6,
       "rank 2 (h, pid 1) failed"},
      {"nor if there is a cause",
       1,
       {at_collective(died(0, 20, 1, kVain), 40), alive(1, 39), killed_at(2, 500)},
       2,
       6,
       "rank 2 (h, pid 1) died of"},
      {"a hang names its rank, whatever its ranks die of",
       1,
       {died(2, 5, 1, kLost), hang(1, 10, 39), died(0, 20, 3, "bad file")},
       1,
       6,
       "no progress for 3s (--hang-timeout): rank 1 (h, pid 1) is behind"},
      {"a loader's error is all there is",
       1,
       {of_loader(1, 3, "no such preset")},
       kNone,
       3,
       "no such preset"},
      {"a cause decides, the first that was heard of",
       2,
       {on_node(1, died(1, 10, 1, "first")), on_node(0, died(0, 10, 1, "second"))},
       1,
       6,
       "node 1: rank 1 (h, pid 1) failed"},
      {"on several nodes a victim yields for two seconds",
       2,
       {on_node(0, died(0, 0, 1, kLost)), on_node(1, killed_at(1, 1900))},
       1,
       6,
       "node 1: rank 1 (h, pid 1) died of"},
      {"a node that learns more says so",
       2,
       {on_node(1, died(2, 0, 1, kLost)), on_node(1, killed_at(1, 500))},
       1,
       6,
       "node 1: rank 1 (h, pid 1) died of"},
      {"of two nodes' victims it is the earliest",
       2,
       {on_node(0, died(0, 0, 1, kLost)), on_node(1, died(1, 1000, 1, kLost))},
       0,
       6,
       "node 0: rank 0 (h, pid 1) failed"},
      {"in a hang the node that is behind is named",
       3,
       {on_node(0, hang(0, 0, 40)), on_node(1, hang(1, 0, 39)), on_node(2, hang(2, 0, 40))},
       1,
       6,
       "no progress for 3s (--hang-timeout): node 1: rank 1 (h, pid 1) is behind"},
      {"where nobody is behind, the first that hung",
       2,
       {on_node(1, hang(1, 0, 40)), on_node(0, hang(0, 0, 40))},
       1,
       6,
       "node 1: no progress for 3s (--hang-timeout): rank 1 (h, pid 1) is behind"},
      {"who waited in vain names the rank of another node",
       2,
       {on_node(0, at_collective(died(0, 0, 1, kVain), 40)),
        on_node(0, alive(0, 40)),
        on_node(1, alive(1, 39))},
       1,
       6,
       "node 1: rank 1 (h, pid 1) is behind, in phase \"D backward\" at iteration 7" + vain},
      {"nobody is behind: it may be the network",
       2,
       {on_node(0, at_collective(died(0, 0, 1, kVain), 40)), on_node(1, alive(1, 40))},
       0,
       6,
       "node 0: rank 0 (h, pid 1) failed"},
      {"a launcher that is gone is a cause",
       2,
       {on_node(0, died(0, 0, 1, kLost)), lost(1, 100)},
       0,
       6,
       "node 1 (h): its launcher is gone"},
      {"a worker's victim says where to look",
       2,
       {died(0, 0, 1, kLost)},
       0,
       6,
       "rank 0 (h, pid 1) failed in phase \"D backward\" before the first iteration: " +
           std::string(kLost) + "\n        a rank of another node may have died first"},
  };
}

}  // namespace

TEST_CASE("TheVerdictNamesWhoWasFirst") {
  for (const Row& row : rows()) {
    CAPTURE(row.law);
    const auto verdict = decide(row.deaths, row.nodes);
    REQUIRE(verdict);
    CHECK(verdict->end.code == row.code);
    CHECK_THAT(verdict->end.error, Catch::StartsWith(row.error));
    if (row.first == kNone) {
      CHECK(verdict->ranks.empty());
    } else {
      REQUIRE(!verdict->ranks.empty());
      CHECK(verdict->ranks.front().rank == row.first);
    }
  }
}

TEST_CASE("WithoutADeathThereIsNoVerdict") {
  CHECK(!decide({}, 1));
  CHECK(!decide({on_node(1, alive(1, 3))}, 2));
  CHECK(!decides_at({on_node(1, alive(1, 3))}, 2));
}

TEST_CASE("ACauseDecidesAtOnceAndAVictimYields") {
  const Death victim = died(0, 10'000, 1, kLost);
  CHECK(decides_at({died(1, 10'000, 1, "first")}, 2) == 10 * kSecond);
  CHECK(decides_at({victim}, 1) == 11 * kSecond);
  CHECK(decides_at({victim}, 2) == 12 * kSecond);
  CHECK(decides_at({victim, killed_at(1, 11'900)}, 2) == 10 * kSecond);
  CHECK(decides_at({hang(0, 10'000, 4)}, 2) == 12 * kSecond);
}

TEST_CASE("ARankThatWasWaitedForIsAmongThoseThatDied") {
  const auto verdict =
      decide({at_collective(died(0, 20, 1, kVain), 40), alive(1, 39), killed_at(2, 5000)}, 1);
  REQUIRE(verdict);
  REQUIRE(verdict->ranks.size() == 3);
  CHECK(verdict->ranks[0].rank == 1);
  CHECK(verdict->ranks[0].code == 6);
  CHECK(verdict->ranks[0].message == "other ranks waited for it in vain");
  CHECK(verdict->ranks[1].rank == 0);
  CHECK(verdict->ranks[2].rank == 2);
  CHECK(verdict->end.cause == "waited in vain in phase D backward");
  CHECK(verdict->end.iteration == 7);
}

TEST_CASE("AHangIsRecordedWithItsTime") {
  const auto verdict = decide({hang(1, 10, 39), died(1, 20, 1, kLost), killed_at(0, 30)}, 1);
  REQUIRE(verdict);
  REQUIRE(verdict->ranks.size() == 2);
  CHECK(verdict->ranks[0].code == 6);
  CHECK(verdict->ranks[0].message == "no progress for 3s (--hang-timeout)");
  CHECK(verdict->ranks[1].rank == 0);
  CHECK(verdict->end.cause == "no progress in phase D backward");
}

TEST_CASE("AnEndIsRestartableWhereTheUserNeedNotChangeAnything") {
  CHECK(decide({killed_at(0, 0)}, 1)->end.restartable);
  CHECK(decide({hang(0, 0, 4)}, 1)->end.restartable);
  CHECK(decide({of_loader(0, 6, "killed")}, 1)->end.restartable);
  CHECK_FALSE(decide({of_loader(0, 3, "bad")}, 1)->end.restartable);
  CHECK_FALSE(decide({died(0, 0, 3, "bad file")}, 1)->end.resumable);
  const AttemptOutcome gone = decide({lost(1, 0)}, 2)->end;
  CHECK_FALSE(gone.restartable);
  CHECK(gone.resumable);
}

}  // namespace gantrain
