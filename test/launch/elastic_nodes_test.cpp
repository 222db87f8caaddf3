// SPDX-License-Identifier: Apache-2.0
// Launchers on one machine, as nodes that come and go.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "launch/local/elastic.h"
#include "launch/local/rank.h"
#include "launch/nodes/node_council.h"
#include "launch_helper.h"
#include "support/catch.h"
#include "support/reserved_port.h"
#include "util/error.h"
#include "util/system.h"

namespace gantrain {

namespace {

// What ranks and test tell each other, beside the pids of the ranks of two nodes (0 and 1).
constexpr size_t kEnd = 2;         // the work of all ranks is done
constexpr size_t kWorld = 3;       // of the newest generation
constexpr size_t kGeneration = 4;  // its number
constexpr size_t kRank0 = 5;       // the slot of its rank 0
constexpr size_t kNode1 = 6;       // 1: its rank fails as it begins, 2: it hangs, once

// A rank of node 1 that hangs, and one of node 0 that waits for it.
void hang_once(const RankContext& c, const ElasticRank& rank) {
  const bool hangs = c.ranks().node_rank == 1;
  if (hangs) shared_number(kNode1) = 0;
  while (hangs || !rank.is_lost()) usleep(1000);
}

// A rank that trains until all is done, as far as a launcher can tell.
int train_for_ever(const RankContext& c) {
  if (c.ranks().node_rank == 1 && shared_number(kNode1) == 1)
    fail(Exit::kEnvironment, "the data is another one here");
  ElasticRank rank(c);
  int64_t border = -1;
  while (const auto meeting = rank.meet(border)) {
    border += 1;
    shared_number(static_cast<size_t>(c.rank())) = getpid();
    if (rank.rank() == 0) {
      shared_number(kRank0) = c.rank();
      shared_number(kWorld) = meeting->ranks.world;
      shared_number(kGeneration) = rank.generation();
      ::close(meeting->listen_fd);
    }
    c.slot().beat();
    c.slot().trace.skip_to(c.ranks().node_rank == 1 ? 39 : 40);
    if (meeting->ranks.world == 2 && shared_number(kNode1) == 2) hang_once(c, rank);
    for (; !rank.is_lost() && !rank.is_wanted(); ++border) {
      c.slot().beat();
      if (shared_number(kEnd) == 1) return 0;
      if (*c.stop != 0) return code_of(Exit::kStopped);
      usleep(1000);
    }
  }
  return 0;
}

LoadTrainer trains() {
  clear_shared_numbers();
  return
      [] { return RankMain([](const RankContext& c, const char*) { return train_for_ever(c); }); };
}

World elastic_node(int64_t number, const ReservedPort& port) {
  World world;
  world.ranks.nodes = 2;
  world.ranks.world = 2;
  world.ranks.local_world = 1;
  world.ranks.node_rank = number;
  world.master.host = "127.0.0.1";
  world.master.port = port.number();
  return world;
}

LaunchOptions beginning_with(int64_t nodes) {
  LaunchOptions options;
  options.nnodes_min = nodes;
  return options;
}

// Until so many ranks work in a later generation than that one; if two, each has worked.
bool work(int64_t ranks, int64_t generation = 0) {
  const auto holds = [&] {
    return shared_number(kWorld) == ranks && shared_number(kGeneration) > generation &&
           (ranks == 1 || shared_number(0) * shared_number(1) != 0);
  };
  return eventually(holds, 60);
}

void end_work() { shared_number(kEnd) = 1; }

}  // namespace

TEST_CASE("ARunGoesOnWithoutANodeAndTakesItBack") {
  const LoadTrainer load = trains();
  const ReservedPort port;
  Launcher first(load, elastic_node(0, port), beginning_with(1));
  Launcher second(load, elastic_node(1, port), beginning_with(1));
  REQUIRE(work(2));
  second.signal(SIGKILL);
  REQUIRE(work(1));
  Launcher again(load, elastic_node(1, port), beginning_with(1));
  REQUIRE(work(2, 2));
  end_work();
  const auto end = first.wait();
  CHECK(end.code == 0);
  CHECK_THAT(end.err,
             Catch::Contains("node 1 (") && Catch::Contains("its launcher is gone") &&
                 Catch::Contains("the run goes on with 1 rank on 1 node") &&
                 Catch::Contains(") has come"));
  CHECK(again.wait().code == 0);
  CHECK(!is_alive(static_cast<pid_t>(shared_number(1))));
}

TEST_CASE("RanksOfAnyNodeAreReplacedThere") {
  const size_t killed = GENERATE(0U, 1U);
  const LoadTrainer load = trains();
  const ReservedPort port;
  Launcher first(load, elastic_node(0, port), beginning_with(2));
  Launcher second(load, elastic_node(1, port), beginning_with(2));
  REQUIRE(work(2));
  const auto dead = static_cast<pid_t>(shared_number(killed));
  kill(dead, SIGKILL);
  // The least is two nodes with a rank each.
  const auto end = first.wait();
  CHECK(end.code == 6);
  CHECK_THAT(end.err, Catch::Contains("rank " + std::to_string(killed) + " ("));
  CHECK(second.wait().code == 6);

  clear_shared_numbers();
  const ReservedPort other_port;
  Launcher a(load, elastic_node(0, other_port), beginning_with(1));
  Launcher b(load, elastic_node(1, other_port), beginning_with(1));
  REQUIRE(work(2));
  kill(static_cast<pid_t>(shared_number(killed)), SIGKILL);
  REQUIRE(work(2, 1));
  CHECK(shared_number(kRank0) == 1 - static_cast<int64_t>(killed));  // it has come furthest
  end_work();
  const auto done = a.wait();
  CHECK(done.code == 0);
  CHECK_THAT(done.err, Catch::Contains("died of signal 9 (SIGKILL)"));
  CHECK(b.wait().code == 0);
}

TEST_CASE("ARunBeginsWithTheLeastNodesAndTakesOthersIn") {
  const LoadTrainer load = trains();
  const ReservedPort port;
  Launcher first(load, elastic_node(0, port), beginning_with(1));
  REQUIRE(work(1));
  Launcher second(load, elastic_node(1, port), beginning_with(1));
  REQUIRE(work(2));
  end_work();
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
}

TEST_CASE("FewerThanTheLeastNodesEndTheRun") {
  const LoadTrainer load = trains();
  const ReservedPort port;
  Launcher first(load, elastic_node(0, port), beginning_with(2));
  Launcher second(load, elastic_node(1, port), beginning_with(2));
  REQUIRE(work(2));
  second.signal(SIGKILL);
  const auto end = first.wait();
  CHECK(end.code == 6);
  CHECK_THAT(end.err, Catch::Contains("error   node 1 (") && Catch::Contains("launcher is gone"));
}

TEST_CASE("TheLossOfNode0EndsTheRun") {
  const LoadTrainer load = trains();
  const ReservedPort port;
  Launcher first(load, elastic_node(0, port), beginning_with(1));
  Launcher second(load, elastic_node(1, port), beginning_with(1));
  REQUIRE(work(2));
  first.signal(SIGKILL);
  const auto end = second.wait();
  CHECK(end.code == 6);
  CHECK_THAT(end.err, Catch::Contains("error   node 0 (") && Catch::Contains("launcher is gone"));
}

TEST_CASE("ANodeThatIsSilentIsGivenUpAndEndsWhenItWakes") {
  const LoadTrainer load = trains();
  const ReservedPort port;
  LaunchOptions options = beginning_with(1);
  options.hang_timeout = Duration{4};
  Launcher first(load, elastic_node(0, port), options);
  Launcher second(load, elastic_node(1, port), options);
  REQUIRE(work(2));
  kill(second.pid(), SIGSTOP);
  REQUIRE(work(1));
  kill(second.pid(), SIGCONT);
  const auto woken = second.wait();
  CHECK(woken.code == 6);
  CHECK_THAT(woken.err, Catch::Contains("node 0 has given this node up"));
  end_work();
  const auto end = first.wait();
  CHECK(end.code == 0);
  CHECK_THAT(end.err, Catch::Contains("has given no sign of life for 4s"));
}

TEST_CASE("ANodeThatCannotTakePartDoesNotEndTheRun") {
  const LoadTrainer load = trains();
  const ReservedPort port;
  Launcher first(load, elastic_node(0, port), beginning_with(1));
  REQUIRE(work(1));
  shared_number(kNode1) = 1;
  Launcher second(load, elastic_node(1, port), beginning_with(1));
  const auto refused = second.wait();
  CHECK(refused.code == 4);
  CHECK_THAT(refused.err, Catch::Contains("the data is another one here"));
  end_work();
  const auto end = first.wait();
  CHECK(end.code == 0);
  CHECK_THAT(end.err, Catch::Contains("the data is another one here; the run goes on with"));
}

TEST_CASE("ARankThatHangsIsEndedOnWhicheverNode") {
  const LoadTrainer load = trains();
  const ReservedPort port;
  LaunchOptions options = beginning_with(1);
  options.hang_timeout = Duration{3};
  shared_number(kNode1) = 2;
  Launcher first(load, elastic_node(0, port), options);
  Launcher second(load, elastic_node(1, port), options);
  REQUIRE(work(2, 1));
  end_work();
  const auto end = first.wait();
  CHECK(end.code == 0);
  CHECK_THAT(end.err, Catch::Contains("rank 1 (") && Catch::Contains(": the rank is ended"));
  CHECK(second.wait().code == 0);
}

TEST_CASE("AStopOfOneNodeStopsAnElasticRun") {
  const LoadTrainer load = trains();
  const ReservedPort port;
  Launcher first(load, elastic_node(0, port), beginning_with(1));
  Launcher second(load, elastic_node(1, port), beginning_with(1));
  REQUIRE(work(2));
  const bool of_node_0 = GENERATE(true, false);
  (of_node_0 ? first : second).signal(SIGTERM);
  CHECK(first.wait().code == 75);
  CHECK(second.wait().code == 75);
}

TEST_CASE("ANodeThatAsksToJoinIsToldWhatToDo") {
  const ReservedPort port;
  const World first = elastic_node(0, port);
  const std::string secret = "a secret of this job";
  NodeLink link(first, {}, kLoopback, secret, "");
  std::atomic<bool> asked = false;
  const auto ask = [&] {
    asked = false;
    std::string told;
    std::thread other([&] {
      try {
        const NodeMessage m = ask_to_join(first.master, secret, "", 60);
        told = std::to_string(m.number) + " " + m.text;
      } catch (const UserError& e) {
        told = e.what();
      }
      asked = true;
    });
    while (!asked) {
      link.exchange();
      usleep(1000);
    }
    other.join();
    return told;
  };
  CHECK_THAT(ask(), Catch::Contains("this run's nodes do not change"));
  link.invite_by("do this");
  CHECK(ask() == "1 do this");
  NodeLink one(elastic_node(1, port), {}, {}, secret, "");
  std::string problem;
  std::thread comes([&] {
    while (!one.connect(first.master, problem)) usleep(1000);
    one.exchange();
  });
  while (!link.absent().empty()) {
    link.exchange();
    usleep(1000);
  }
  comes.join();
  CHECK(link.present() == std::vector<int64_t>{1});
  CHECK_THAT(ask(), Catch::Contains("all 2 nodes are there"));
  link.forget(1, "because");
  CHECK(link.present().empty());
  std::vector<NodeEvent> heard;
  while (heard.empty()) heard = one.exchange();
  CHECK(heard.front().message.text == "because");
}

}  // namespace gantrain
