// SPDX-License-Identifier: Apache-2.0
// Nodes and ranks of elastic runs that are lost or come at an awkward moment.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "launch/elastic/elastic_nodes.h"
#include "launch/nodes/node_council.h"
#include "support/catch.h"
#include "util/error.h"

namespace gantrain {

TEST_CASE("ARankThatHangsIsEndedThoughLostOnesCannotBeReplacedYet") {
  const LoadTrainer load = trains();
  LaunchOptions options;
  options.nproc_min = 1;
  options.hang_timeout = Duration{3};
  Launcher launcher(load, local_world(4), options);
  REQUIRE(work(4));
  shared_number(kFork) = 1;
  kill_rank_of(1);
  REQUIRE(work(3, 1));
  kill_rank_of(2);  // its place stays empty for a second, and the other one's loads meanwhile
  REQUIRE(work(2, 2));
  shared_number(kHanging) = 3;
  REQUIRE(work(1, 3));
  shared_number(kFork) = 0;
  end_work();
  const auto end = launcher.wait();
  CHECK(end.code == 0);
  CHECK_THAT(end.err, Catch::Contains("rank 3 gives no sign of life: it is ended"));
}

TEST_CASE("ANodeThatComesWhileAllRanksAreEndedIsThereWhenTheyStartAgain") {
  LaunchOptions options = restarting(1);
  options.nnodes_min = 2;
  Nodes nodes(3, options, 1);
  REQUIRE(work(2));
  shared_number(kFailing) = 1;
  REQUIRE(eventually([] { return shared_number(kFailing) == 3; }, 60));
  nodes.start(2);
  REQUIRE(work(3));
  end_work();
  for (const size_t node : {0U, 1U, 2U}) CHECK(nodes[node].wait().code == 0);
}

TEST_CASE("WhoLeadsInAnothersPlaceStartsAllAgain") {
  LaunchOptions options = restarting(1);
  options.nnodes_min = 1;
  Nodes nodes(3, options);
  REQUIRE(work(3));
  nodes[0].signal(SIGKILL);
  REQUIRE(work(2, 1));
  shared_number(kFailing) = 1;
  REQUIRE(eventually([] { return shared_number(kFailing) == 3; }, 60));
  shared_number(kWorld) = 0;
  REQUIRE(work(2));
  end_work();
  for (const size_t node : {1U, 2U}) CHECK(nodes[node].wait().code == 0);
}

TEST_CASE("ARestartWaitsForTheLeastNodes") {
  LaunchOptions options = restarting(1);
  options.patience.first_restart = 3;
  options.nnodes_min = 2;
  Nodes nodes(2, options);
  REQUIRE(work(2));
  shared_number(kFailing) = 1;
  REQUIRE(nodes[0].wait_for("starting the ranks again"));
  nodes[1].signal(SIGKILL);
  shared_number(kWorld) = 0;
  REQUIRE(nodes[0].wait_for("nodes   waiting for node 1"));
  CHECK(shared_number(kWorld) == 0);
  nodes.start(1);
  REQUIRE(work(2));
  end_work();
  for (const size_t node : {0U, 1U}) CHECK(nodes[node].wait().code == 0);
}

TEST_CASE("ADeathEndsTheRunThoughARankThatHangsIsHeardOfAfterIt") {
  const ReservedPort port;
  NodeCouncil council(
      NodeLink(node(0, port), {}, kLoopback, "", ""), {"127.0.0.1", port.number()}, 60);
  council.be_elastic(1, "");
  council.hear_of({{.kind = Death::Kind::kRank, .node = 0, .rank = 0, .code = 1}});
  council.report_hang({{.kind = Death::Kind::kHang, .node = 0, .rank = 1, .hang_timeout = 3}});
  council.exchange();
  REQUIRE(council.verdict());
  CHECK(council.verdict()->code == 6);
}

TEST_CASE("ANodeThatComesAsTheRunEndsEndsAsThat") {
  const LoadTrainer load = trains();
  const ReservedPort port;
  const int code = GENERATE(0, 75);
  NodeLink leader(node(0, port), {}, kLoopback, "", "");
  leader.be_elastic("");
  Launcher late(load, node(1, port), beginning_with(1));
  REQUIRE(eventually([&] { return !leader.exchange().empty(); }, 60));
  kill(late.pid(), SIGSTOP);
  leader.send({.word = NodeMessage::Word::kStart, .place = leader.here()});
  leader.send({.word = NodeMessage::Word::kEnded, .number = code});
  leader.close();
  kill(late.pid(), SIGCONT);
  const auto end = late.wait();
  INFO(end.err);
  CHECK(end.code == code);
}

TEST_CASE("WhereNoProcessCanBeStartedTheOthersGoOn") {
  const LoadTrainer load = trains();
  LaunchOptions options;
  options.nproc_min = 1;
  Launcher launcher(load, local_world(2), options);
  REQUIRE(work(2));
  rlimit before{};
  REQUIRE(::prlimit(launcher.pid(), RLIMIT_NOFILE, nullptr, &before) == 0);
  const rlimit none{.rlim_cur = 4, .rlim_max = before.rlim_max};  // a pipe needs two more
  REQUIRE(::prlimit(launcher.pid(), RLIMIT_NOFILE, &none, nullptr) == 0);
  kill_rank_of(1);
  REQUIRE(launcher.wait_for("no rank takes the place of a lost one yet: "));
  REQUIRE(work(1, 1));
  REQUIRE(::prlimit(launcher.pid(), RLIMIT_NOFILE, &before, nullptr) == 0);
  end_work();
  CHECK(launcher.wait().code == 0);
}

TEST_CASE("WhereTheLeaderIsLostBeforeItHasDecidedNobodyWaitsForARestart") {
  LaunchOptions options = restarting(1);
  options.nnodes_min = 1;
  Nodes nodes(2, options);
  REQUIRE(work(2));
  shared_number(kFailing) = 1;
  REQUIRE(eventually([] { return shared_number(kFailing) == 3; }, 60));
  usleep(300'000);  // the other launcher waits for the word whether all start again
  nodes[0].signal(SIGKILL);
  const auto end = nodes[1].wait();
  INFO(end.err);
  CHECK(end.code == 6);
}

TEST_CASE("AtAStopWhoIsLeftSavesThoughTooFewNodesAreLeft") {
  Nodes nodes(2, beginning_with(2));
  REQUIRE(work(2));
  shared_number(kSaving) = 1;
  nodes[0].signal(SIGTERM);
  REQUIRE(eventually([] { return !is_alive(static_cast<pid_t>(shared_number(1))); }, 60));
  nodes[1].signal(SIGKILL);
  REQUIRE(nodes[0].wait_for("its launcher is gone"));
  shared_number(kSaving) = 0;
  CHECK(nodes[0].wait().code == 75);
}

TEST_CASE("AStoppedRunHasStoppedThoughItsLeaderIsLostThen") {
  Nodes nodes(2);
  REQUIRE(work(2));
  kill(nodes[0].pid(), SIGSTOP);
  nodes[1].signal(SIGTERM);
  REQUIRE(eventually([] { return !is_alive(static_cast<pid_t>(shared_number(1))); }, 60));
  nodes[0].signal(SIGKILL);
  CHECK(nodes[1].wait().code == 75);
}

TEST_CASE("ARankThatHasJustJoinedHasTheWholeGraceAtAStop") {
  Nodes nodes(2, beginning_with(1), 1);
  REQUIRE(work(1));
  shared_number(kSaving) = 2;
  nodes.start(1);
  REQUIRE(eventually([] { return shared_number(1) != 0; }, 60));
  nodes[1].signal(SIGTERM);
  usleep(1'500'000);
  shared_number(kSaving) = 0;
  const auto end = nodes[1].wait();
  CHECK(end.code == 75);
  CHECK(end.err.find("killing the ranks") == std::string::npos);
  CHECK(nodes[0].wait().code == 75);
}

}  // namespace gantrain
