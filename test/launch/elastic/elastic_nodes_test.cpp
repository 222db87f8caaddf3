// SPDX-License-Identifier: Apache-2.0
// Launchers on one machine, as nodes that come and go.
#include "launch/elastic/elastic_nodes.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "launch/nodes/node_link.h"
#include "support/catch.h"
#include "util/system.h"

namespace gantrain {

namespace {

// An address that nobody answers from, as where a network is cut.
const std::string kBeyondTheCut = "fe80::1";

// One of three nodes, or fewer, that has lost node 0: what each of them does when it is asked for.
struct Survivor {
  explicit Survivor(int64_t node, const std::vector<NodeAddress>& nodes, bool closed)
      : succession({.here = {.node = node, .nodes = 3},
                    .address = {node, "127.0.0.1", 1},
                    .table = {.leader = 0, .nodes = nodes},
                    .silence = 10,
                    .secret = ""},
                   {.text = "node 0 is lost", .closed = closed, .since = 100}) {}
  // The last step of those until so many seconds after the loss.
  Succession::Step until(double seconds) {
    Succession::Step step = Succession::Step::kSeeks;
    for (; at <= 100 + seconds && step == Succession::Step::kSeeks; at += 0.2)
      step = succession.step(at, newcomers);
    return step;
  }
  void is_followed_by(int64_t node) {
    newcomers.push_back({.said = NodeMessage{.word = NodeMessage::Word::kFollow,
                                             .place = {.node = node, .nodes = 3}}});
  }

  Succession succession;
  std::vector<Newcomer> newcomers;
  double at = 100;
};

}  // namespace

TEST_CASE("ARunGoesOnWithoutANodeAndTakesItBack") {
  const size_t lost = GENERATE(0U, 1U);  // node 0 leads at first
  Nodes nodes(2);
  REQUIRE(work(2));
  nodes[lost].signal(SIGKILL);
  REQUIRE(work(1, 1));
  nodes.start(static_cast<int64_t>(lost));
  REQUIRE(work(2, 2));
  end_work();
  const auto end = nodes[1 - lost].wait();
  CHECK(end.code == 0);
  CHECK_THAT(end.err,
             Catch::Contains("node " + std::to_string(lost) + " (") &&
                 Catch::Contains("its launcher is gone") &&
                 Catch::Contains("the run goes on with 1 rank on 1 node") &&
                 Catch::Contains(") has come"));
  CHECK((end.err.find("leads the run now") != std::string::npos) == (lost == 0));
  CHECK(nodes[lost].wait().code == 0);
  CHECK(!is_alive(static_cast<pid_t>(shared_number(lost))));
  CHECK(!std::filesystem::exists(nodes.folder / ".nodes"));
}

TEST_CASE("RanksOfAnyNodeAreReplacedThere") {
  const size_t killed = GENERATE(0U, 1U);
  {
    Nodes nodes(2, beginning_with(2));
    REQUIRE(work(2));
    kill_rank_of(killed);
    // The least is two nodes with a rank each.
    const auto end = nodes[0].wait();
    CHECK(end.code == 6);
    CHECK_THAT(end.err, Catch::Contains("rank " + std::to_string(killed) + " ("));
    CHECK(nodes[1].wait().code == 6);
  }
  Nodes nodes(2);
  REQUIRE(work(2));
  kill_rank_of(killed);
  REQUIRE(work(2, 1));
  CHECK(shared_number(kRank0) == 1 - static_cast<int64_t>(killed));  // it has come furthest
  end_work();
  const auto done = nodes[0].wait();
  CHECK(done.code == 0);
  CHECK_THAT(done.err, Catch::Contains("died of signal 9 (SIGKILL)"));
  CHECK(nodes[1].wait().code == 0);
}

TEST_CASE("WithTheLastRankThatHasTheStateTheRunEnds") {
  const size_t first = GENERATE(0U, 1U);
  Nodes nodes(2);
  REQUIRE(work(2));
  REQUIRE(is_replaced_on(first));
  kill_rank_of(first);
  kill_rank_of(1 - first);
  const auto end = nodes[0].wait();
  CHECK(end.code == 6);
  CHECK_THAT(end.err, Catch::Contains("error   node ") && Catch::Contains("(SIGKILL)"));
  CHECK(nodes[1].wait().code == 6);
}

TEST_CASE("ARankThatIsStillLoadingDoesNotBeginTheRunAnew") {
  const size_t loads = GENERATE(0U, 1U);
  Nodes nodes(2);
  REQUIRE(work(2));
  shared_number(kLoading) = static_cast<int64_t>(loads) + 1;
  kill_rank_of(loads);
  REQUIRE(work(1, 1));
  SECTION("when the other launcher is lost") {
    nodes[1 - loads].signal(SIGKILL);
    const auto end = nodes[loads].wait();
    CHECK(end.code == 6);
    CHECK_THAT(end.err, Catch::Contains("error   node ") && Catch::Contains("launcher is gone"));
  }
  SECTION("when the other rank is lost") {
    kill_rank_of(1 - loads);
    for (const size_t node : {0U, 1U}) {
      const auto end = nodes[node].wait();
      CHECK(end.code == 6);
      CHECK_THAT(end.err, Catch::Contains("error   node ") && Catch::Contains("(SIGKILL)"));
    }
  }
  CHECK(shared_number(kGeneration) == 2);  // that of one rank
}

TEST_CASE("AStopIsOneThoughALostRankHasNotBeenReplaced") {
  const size_t lost = GENERATE(0U, 1U);
  Nodes nodes(2);
  REQUIRE(work(2));
  REQUIRE(is_replaced_on(lost));
  const int64_t before = shared_number(kGeneration);
  kill_rank_of(lost);
  REQUIRE(work(1, before));
  SECTION("because the pause is not over") {}
  SECTION("because its launcher hears of the stop first") {
    kill(nodes[lost].pid(), SIGSTOP);
    usleep(1'500'000);
    for (const int number : {SIGTERM, SIGCONT}) kill(nodes[lost].pid(), number);
  }
  nodes[1 - lost].signal(SIGTERM);
  for (const size_t node : {0U, 1U}) {
    const auto end = nodes[node].wait();
    INFO(end.err);
    CHECK(end.code == 75);
    CHECK(end.err.find("killing the ranks") == std::string::npos);
  }
}

TEST_CASE("ARunBeginsWithTheLeastNodesAndTakesOthersIn") {
  const LoadTrainer load = trains();
  const ReservedPort port;
  Launcher first(load, node(0, port), beginning_with(1));
  REQUIRE(work(1));
  Launcher second(load, node(1, port), beginning_with(1));
  REQUIRE(work(2));
  end_work();
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
}

TEST_CASE("FewerThanTheLeastNodesEndTheRun") {
  const size_t lost = GENERATE(0U, 1U);
  Nodes nodes(2, beginning_with(2));
  REQUIRE(work(2));
  nodes[lost].signal(SIGKILL);
  const auto end = nodes[1 - lost].wait();
  CHECK(end.code == 6);
  CHECK_THAT(end.err,
             Catch::Contains("error   node " + std::to_string(lost) + " (") &&
                 Catch::Contains("launcher is gone"));
}

TEST_CASE("OfThreeNodesEachMayLead") {
  Nodes nodes(3);
  REQUIRE(work(3));
  nodes[0].signal(SIGKILL);
  REQUIRE(work(2, 1));
  nodes[1].signal(SIGKILL);
  REQUIRE(work(1, 2));
  nodes.start(1);
  REQUIRE(work(2, 3));
  nodes.start(0);
  REQUIRE(work(3, 4));
  end_work();
  const auto end = nodes[2].wait();
  CHECK(end.code == 0);
  CHECK_THAT(end.err, Catch::Contains(") leads the run now") && Catch::Contains(") has come"));
  CHECK(nodes[0].wait().code == 0);
  CHECK(nodes[1].wait().code == 0);
}

TEST_CASE("TwoOfThreeLaunchersMayBeLostAtOnce") {
  Nodes nodes(3);
  REQUIRE(work(3));
  nodes[1].signal(SIGKILL);
  nodes[0].signal(SIGKILL);
  REQUIRE(work(1, 1));
  end_work();
  CHECK(nodes[2].wait().code == 0);
}

TEST_CASE("ANodeThatIsSilentIsGivenUpAndEndsWhenItWakes") {
  const size_t silent = GENERATE(0U, 1U);
  LaunchOptions options = beginning_with(1);
  options.hang_timeout = Duration{4};
  Launcher::record = [](const AttemptEnd& end) {
    shared_number(kDeaths) += static_cast<int64_t>(end.deaths.size());
  };
  Nodes nodes(2, options);
  REQUIRE(work(2));
  kill(nodes[silent].pid(), SIGSTOP);
  REQUIRE(work(1, 1));
  kill(nodes[silent].pid(), SIGCONT);
  const auto woken = nodes[silent].wait();
  CHECK(woken.code == 6);
  CHECK_THAT(woken.err,
             Catch::Contains(silent == 0 ? "leads the run now, because this node was silent"
                                         : "node 0 has given this node up"));
  CHECK(shared_number(kDeaths) == 0);  // the run goes on, and nobody has died
  end_work();
  const auto end = nodes[1 - silent].wait();
  CHECK(end.code == 0);
  CHECK_THAT(end.err, Catch::Contains("has given no sign of life for 4s"));
}

TEST_CASE("TwoFrozenLaunchersDoNotStopTheThird") {
  const std::vector<size_t> frozen = GENERATE(std::vector<size_t>{0, 1}, std::vector<size_t>{1, 2});
  LaunchOptions options = beginning_with(1);
  options.hang_timeout = Duration{2};
  Nodes nodes(3, options);
  REQUIRE(work(3));
  for (const size_t node : frozen) kill(nodes[node].pid(), SIGSTOP);
  REQUIRE(work(1, 1));
  end_work();
  CHECK(nodes[frozen[0] == 0 ? 2 : 0].wait().code == 0);
}

TEST_CASE("ANodeThatCannotTakePartDoesNotEndTheRun") {
  const LoadTrainer load = trains();
  const ReservedPort port;
  Launcher first(load, node(0, port), beginning_with(1));
  REQUIRE(work(1));
  shared_number(kNode1) = 1;
  Launcher second(load, node(1, port), beginning_with(1));
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
  Launcher first(load, node(0, port), options);
  Launcher second(load, node(1, port), options);
  REQUIRE(work(2, 1));
  end_work();
  const auto end = first.wait();
  CHECK(end.code == 0);
  CHECK_THAT(end.err, Catch::Contains("rank 1 (") && Catch::Contains(": the rank is ended"));
  CHECK(second.wait().code == 0);
}

TEST_CASE("AStopOfOneNodeStopsAnElasticRun") {
  Nodes nodes(2);
  REQUIRE(work(2));
  nodes[GENERATE(0U, 1U)].signal(SIGTERM);
  CHECK(nodes[0].wait().code == 75);
  CHECK(nodes[1].wait().code == 75);
}

TEST_CASE("EvidenceDecidesWhoLeadsWhenTheLauncherThatLedIsLost") {
  using Step = Succession::Step;
  const ReservedPort refuses, too;
  const NodeAddress dead{0, "127.0.0.1", refuses.number()}, cut{0, kBeyondTheCut, 1};
  const NodeAddress one{1, "127.0.0.1", 1}, two{2, kBeyondTheCut, 1};
  SECTION("a port that refuses is that of a dead launcher") {
    CHECK(Survivor(1, {dead, one}, false).until(0) == Step::kLeads);
  }
  SECTION("so is a closed connection that cannot be made again") {
    CHECK(Survivor(1, {cut, one}, true).until(0) == Step::kLeads);
  }
  SECTION("one that connects and says nothing is frozen") {
    const Listener silent = listen_on(0, kLoopback);
    Survivor survivor(1, {{0, "127.0.0.1", silent.port}, one}, false);
    CHECK(survivor.until(1.9) == Step::kSeeks);
    CHECK(survivor.until(3) == Step::kLeads);
  }
  SECTION("silence alone may be a cut network: half do not go on without the one that led") {
    Survivor survivor(1, {cut, one}, false);
    CHECK(survivor.until(3.9) == Step::kSeeks);
    CHECK(survivor.until(60) == Step::kGivesUp);
    CHECK_THAT(survivor.succession.loss().text,
               Catch::Contains("node 0 is lost; others may go on beyond a network that is cut"));
  }
  SECTION("more than half do") {
    Survivor survivor(1, {cut, one, two}, false);
    CHECK(survivor.until(5) == Step::kSeeks);
    survivor.is_followed_by(2);
    CHECK(survivor.until(6) == Step::kLeads);
    CHECK(survivor.succession.followers().size() == 1);
  }
  SECTION("of two that are cut from each other the first goes on") {
    Survivor first(1, {dead, one, two}, false);
    CHECK(first.until(13.5) == Step::kSeeks);
    CHECK(first.until(60) == Step::kLeads);
    const NodeAddress one_cut{1, kBeyondTheCut, 1}, own{2, "127.0.0.1", 1};
    CHECK(Survivor(2, {dead, one_cut, own}, false).until(60) == Step::kGivesUp);
  }
  SECTION("the last one goes on") {
    const NodeAddress one_dead{1, "127.0.0.1", too.number()}, own{2, "127.0.0.1", 1};
    CHECK(Survivor(2, {dead, one_dead, own}, false).until(1) == Step::kLeads);
  }
}

}  // namespace gantrain
