// SPDX-License-Identifier: Apache-2.0
// Several launchers on one machine, as the nodes of one world.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "launch/local/supervise.h"
#include "launch/nodes/node_council.h"
#include "launch_helper.h"
#include "support/catch.h"
#include "support/reserved_port.h"
#include "support/temporary_folder.h"
#include "util/file.h"
#include "util/system.h"

namespace gantrain {

namespace {

template <auto act>
LoadTrainer ranks() {
  return [] { return RankMain([](const RankContext& c, const char*) -> int { return act(c); }); };
}

int wait_for_ever(const RankContext& c) {
  shared_number(static_cast<size_t>(c.rank())) = getpid();
  sleep_for_ever();
}

bool both_run() {
  return eventually([] { return shared_number(0) * shared_number(1) != 0; }, 60);
}

LaunchOptions meeting_for(double seconds) {
  LaunchOptions options;
  options.patience.meeting = seconds;
  return options;
}

// Connects to node 0's launcher as soon as it listens.
UniqueFd stranger_at(const ReservedPort& port) {
  UniqueFd stranger;
  std::string problem;
  eventually(
      [&] {
        return bool(stranger = connect_to({"127.0.0.1", port.number()}, 1, problem));
      },
      60);
  REQUIRE(stranger);
  return stranger;
}

// Until the other side has closed the connection.
std::string heard_to_the_end(const UniqueFd& stranger) {
  std::string text;
  eventually([&] { return !read_from(stranger.get(), text, 1); }, 60);
  return text;
}

// What stands behind the last "error   ", without the hint how to go on.
std::string cause_in(const std::string& err) {
  const size_t begin = err.rfind("error   ");
  if (begin == std::string::npos) return "";
  return err.substr(begin, err.find("next: resume", begin) - begin);
}

}  // namespace

TEST_CASE("TwoLaunchersMakeOneWorld") {
  clear_shared_numbers();
  const ReservedPort port;
  const LoadTrainer load = ranks<[](const RankContext& c) {
    ++shared_number(static_cast<size_t>(c.rank()));
    return c.rank() == c.ranks().node_rank * 2 + c.ranks().local_rank && c.ranks().nodes == 2 ? 0
                                                                                              : 9;
  }>();
  Launcher first(load, node(0, port, {2, 2}), {});
  Launcher second(load, node(1, port, {2, 2}), {});
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
  for (size_t i = 0; i < 4; ++i) CHECK(shared_number(i) == 1);
}

TEST_CASE("AKilledLauncherIsNamedByTheOtherNode") {
  const int64_t killed = GENERATE(0, 1);
  clear_shared_numbers();
  const ReservedPort port;
  Launcher first(ranks<wait_for_ever>(), node(0, port), restarting(3));
  Launcher second(ranks<wait_for_ever>(), node(1, port), restarting(3));
  REQUIRE(both_run());
  (killed == 0 ? first : second).signal(SIGKILL);
  const auto left = (killed == 0 ? second : first).wait();
  CHECK(left.code == 6);
  CHECK_THAT(cause_in(left.err),
             Catch::Contains("node " + std::to_string(killed) + " (") &&
                 Catch::Contains("its launcher is gone"));
  CHECK(!is_alive(static_cast<pid_t>(shared_number(1 - static_cast<size_t>(killed)))));
}

TEST_CASE("AStoppedLauncherIsNamedByAll") {
  const int64_t stopped = GENERATE(0, 1);
  clear_shared_numbers();
  const ReservedPort port;
  LaunchOptions options;
  options.hang_timeout = Duration{4};
  Launcher first(ranks<wait_for_ever>(), node(0, port), options);
  Launcher second(ranks<wait_for_ever>(), node(1, port), options);
  REQUIRE(both_run());
  Launcher& asleep = stopped == 0 ? first : second;
  kill(asleep.pid(), SIGSTOP);
  const auto awake = (stopped == 0 ? second : first).wait();
  CHECK(awake.code == 6);
  CHECK_THAT(cause_in(awake.err),
             Catch::Contains("node " + std::to_string(stopped) + " (") &&
                 Catch::Contains("no sign of life for 4s"));
  kill(asleep.pid(), SIGCONT);
  const auto woken = asleep.wait();
  CHECK(woken.code == 6);
  CHECK(cause_in(woken.err) == cause_in(awake.err));
}

TEST_CASE("AllNodesPrintTheSameFirstCause") {
  clear_shared_numbers();
  const ReservedPort port;
  const LoadTrainer load = ranks<[](const RankContext& c) -> int {
    shared_number(static_cast<size_t>(c.rank())) = getpid();
    if (c.rank() == 3) {
      c.slot().set_phase("D backward");
      c.slot().beat(7, 12300);
      while (shared_number(6) == 0) usleep(1000);  // the victim has ended
      raise(SIGKILL);
    }
    if (c.rank() != 0) sleep_for_ever();
    while (shared_number(3) == 0) usleep(1000);
    shared_number(6) = 1;
    throw std::runtime_error("Connection closed by peer");
  }>();
  Launcher first(load, node(0, port, {2, 2}), {});
  Launcher second(load, node(1, port, {2, 2}), {});
  const auto a = first.wait();
  const auto b = second.wait();
  CHECK(a.code == 6);
  CHECK(b.code == 6);
  CHECK_THAT(cause_in(a.err),
             Catch::Contains("node 1: rank 3 (") &&
                 Catch::Contains("pid " + std::to_string(shared_number(3)) +
                                 ") died of signal 9 (SIGKILL) in phase "
                                 "\"D backward\""));
  CHECK(cause_in(a.err) == cause_in(b.err));
}

// srun shows what 128 launchers say as one text.
TEST_CASE("OneVoiceTellsAFailureOf128Nodes") {
  constexpr int64_t kNodes = 128;
  const std::string what = GENERATE("a rank", "node 0");
  clear_shared_numbers();
  const ReservedPort port;
  LaunchOptions options;
  options.max_restarts = what == "a rank" ? 1 : 0;
  options.patience.first_restart = 0;
  const LoadTrainer load = ranks<[](const RankContext& c) -> int {
    std::atomic_ref(shared_number(static_cast<size_t>(c.attempt))).fetch_add(1);
    while (std::atomic_ref(shared_number(static_cast<size_t>(c.attempt))) < kNodes) usleep(10'000);
    if (c.rank() == 77 && shared_number(6) == 1) raise(SIGKILL);
    sleep_for_ever();
  }>();
  shared_number(6) = what == "a rank" ? 1 : 0;
  std::vector<std::unique_ptr<Launcher>> nodes;
  for (int64_t i = 0; i < kNodes; ++i) {
    World world = node(i, port, {kNodes, 1});
    world.source = "slurm";
    nodes.push_back(std::make_unique<Launcher>(load, world, options));
  }
  if (what == "node 0") {
    REQUIRE(eventually([] { return shared_number(0) == kNodes; }, 60));
    nodes[0]->signal(SIGKILL);
  }
  std::string all;
  for (const auto& node : nodes) {
    const auto result = node->wait();
    CHECK(result.code == (what == "node 0" && node == nodes[0] ? 137 : 6));
    all += result.err;
  }
  INFO(all);
  CHECK(std::ranges::count(all, '\n') <= 40);
  CHECK_THAT(all, Catch::Contains(what == "node 0" ? "node 0 (" : "node 77: rank 77 ("));
}

TEST_CASE("InAHangAllNodesNameTheRankThatIsBehind") {
  clear_shared_numbers();
  const ReservedPort port;
  LaunchOptions options;
  options.hang_timeout = Duration{3};
  const LoadTrainer load = ranks<[](const RankContext& c) -> int {
    c.slot().set_phase(c.rank() == 1 ? "reading data" : "all-reduce");
    c.slot().trace.skip_to(c.rank() == 1 ? 39 : 40);
    shared_number(static_cast<size_t>(c.rank())) = getpid();
    while (shared_number(0) * shared_number(1) == 0) usleep(1000);
    c.slot().beat(7, 100);
    sleep_for_ever();
  }>();
  Launcher first(load, node(0, port), options);
  Launcher second(load, node(1, port), options);
  const auto a = first.wait();
  const auto b = second.wait();
  CHECK(a.code == 6);
  CHECK_THAT(cause_in(a.err),
             Catch::Contains("no progress for 3s (--hang-timeout): node 1: rank 1 (") &&
                 Catch::Contains("is behind, in phase \"reading data\""));
  CHECK(cause_in(a.err) == cause_in(b.err));
}

TEST_CASE("AnErrorOfTheUsersHasItsCodeOnAllNodes") {
  const ReservedPort port;
  const LoadTrainer load = ranks<[](const RankContext& c) -> int {
    if (c.rank() == 1) fail(Exit::kInput, "photo.png is broken");
    sleep_for_ever();
  }>();
  Launcher first(load, node(0, port), restarting(2));
  Launcher second(load, node(1, port), restarting(2));
  for (Launcher* launcher : {&first, &second}) {
    const auto result = launcher->wait();
    CHECK(result.code == 3);
    CHECK(result.err == "error   node 1: photo.png is broken\n");
  }
}

TEST_CASE("NodesRestartTogetherWithANewStore") {
  const int64_t culprit = GENERATE(0, 1);
  clear_shared_numbers();
  shared_number(6) = culprit;
  const ReservedPort port;
  const LoadTrainer load = ranks<[](const RankContext& c) -> int {
    if (c.attempt == 0 && c.rank() == 0) c.board->set_run_folder("runs/7");
    if (c.rank() == 0) shared_number(static_cast<size_t>(4 + c.attempt)) = c.rendezvous.master.port;
    const bool knows = c.attempt == 0 || c.board->run_folder() == "runs/7";
    ++shared_number(static_cast<size_t>(2 * c.attempt + c.rank()));
    while (shared_number(static_cast<size_t>(2 * c.attempt + 1 - c.rank())) == 0) usleep(1000);
    if (c.attempt == 0 && c.rank() == shared_number(6)) raise(SIGKILL);
    if (c.attempt == 0) sleep_for_ever();
    return knows ? 0 : 9;
  }>();
  Launcher first(load, node(0, port), restarting(1));
  Launcher second(load, node(1, port), restarting(0));  // node 0 decides
  for (Launcher* launcher : {&first, &second}) {
    const auto result = launcher->wait();
    INFO(result.err);
    CHECK(result.code == 0);
    CHECK_THAT(result.err,
               Catch::Contains("node " + std::to_string(culprit) + ": rank ") &&
                   Catch::Contains("starting the ranks again (restart 1 of 1)"));
  }
  for (size_t i = 0; i < 4; ++i) CHECK(shared_number(i) == 1);
  CHECK(shared_number(4) != shared_number(5));
}

TEST_CASE("NodesGiveUpTogetherOnTheSameFailure") {
  const ReservedPort port;
  const LoadTrainer load = ranks<[](const RankContext& c) -> int {
    if (c.rank() == 0) sleep_for_ever();
    c.slot().beat(40, 100);
    raise(SIGKILL);
    return 0;
  }>();
  Launcher first(load, node(0, port), restarting(5));
  Launcher second(load, node(1, port), restarting(5));
  for (Launcher* launcher : {&first, &second}) {
    const auto result = launcher->wait();
    CHECK(result.code == 6);
    CHECK_THAT(cause_in(result.err),
               Catch::Contains("node 1: rank 1 (") &&
                   Catch::Contains("failed twice at iteration 40 with the same cause"));
  }
}

TEST_CASE("AStopOfOneNodeStopsTheOthers") {
  const int64_t asked = GENERATE(0, 1);
  clear_shared_numbers();
  const ReservedPort port;
  const LoadTrainer load = ranks<[](const RankContext& c) -> int {
    c.slot().set_phase("D backward");
    shared_number(static_cast<size_t>(c.rank())) = getpid();
    while (*c.stop == 0) usleep(1000);
    return 75;
  }>();
  Launcher first(load, node(0, port), {});
  Launcher second(load, node(1, port), {});
  REQUIRE(both_run());
  (asked == 0 ? first : second).signal(SIGTERM);
  for (Launcher* launcher : {&first, &second}) {
    const auto result = launcher->wait();
    INFO(result.err);
    CHECK(result.code == 75);
    CHECK(result.err.find("error") == std::string::npos);
  }
}

TEST_CASE("NodesWithDifferentShapesAreRefused") {
  const ReservedPort port;
  Launcher first(ranks<wait_for_ever>(), node(0, port, {2, 1}), meeting_for(60));
  Launcher second(ranks<wait_for_ever>(), node(1, port, {2, 2}), meeting_for(60));
  for (Launcher* launcher : {&first, &second}) {
    const auto result = launcher->wait();
    CHECK(result.code == 4);
    CHECK_THAT(result.err,
               Catch::Contains("2 ranks on 2 nodes on node 0 (") &&
                   Catch::Contains("4 ranks on 2 nodes on node 1 (") &&
                   Catch::Contains("the same --nnodes and --nproc"));
  }
}

TEST_CASE("ANodeThatIsStartedTwiceIsRefusedEverywhere") {
  const ReservedPort port;
  Launcher first(ranks<wait_for_ever>(), node(0, port, {3, 1}), meeting_for(60));
  Launcher second(ranks<wait_for_ever>(), node(1, port, {3, 1}), meeting_for(60));
  Launcher third(ranks<wait_for_ever>(), node(1, port, {3, 1}), meeting_for(60));
  for (Launcher* launcher : {&first, &second, &third}) {
    const auto result = launcher->wait();
    CHECK(result.code == 4);
    CHECK_THAT(result.err, Catch::Contains("node 1 was started twice: on "));
  }
}

TEST_CASE("ALauncherThatComesTooLateIsTheOnlyOneRefused") {
  clear_shared_numbers();
  const ReservedPort port;
  const LoadTrainer load = ranks<[](const RankContext& c) -> int {
    shared_number(static_cast<size_t>(c.rank())) = getpid();
    while (shared_number(6) == 0) usleep(1000);
    return 0;
  }>();
  Launcher first(load, node(0, port), {});
  Launcher second(load, node(1, port), {});
  REQUIRE(both_run());
  const auto late = Launcher(load, node(1, port), {}).wait();
  CHECK(late.code == 4);
  CHECK_THAT(late.err, Catch::Contains("node 1 was started twice"));
  shared_number(6) = 1;
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
}

TEST_CASE("ANodeThatNeverComesIsNamed") {
  const ReservedPort port;
  Launcher first(ranks<wait_for_ever>(), node(0, port, {3, 2}), meeting_for(3));
  Launcher second(ranks<wait_for_ever>(), node(1, port, {3, 2}), meeting_for(60));
  for (Launcher* launcher : {&first, &second}) {
    const auto result = launcher->wait();
    CHECK(result.code == 4);
    CHECK_THAT(result.err, Catch::Contains("node 2 (ranks 4 to 5) did not come within 3s"));
  }
  const auto alone = Launcher(ranks<wait_for_ever>(), node(1, port), meeting_for(1)).wait();
  CHECK(alone.code == 4);
  CHECK_THAT(alone.err,
             Catch::Contains("node 1: no rendezvous at 127.0.0.1:") &&
                 Catch::Contains("Connection refused; is node 0 running there"));
}

TEST_CASE("AStopWhileLaunchersMeetEndsThemAtOnce") {
  const ReservedPort port;
  Launcher first(ranks<wait_for_ever>(), node(0, port, {3, 1}), {});
  Launcher second(ranks<wait_for_ever>(), node(1, port, {3, 1}), {});
  REQUIRE(first.wait_for("waiting for node 2 (rank 2)"));
  first.signal(SIGINT);
  for (Launcher* launcher : {&first, &second}) {
    const auto result = launcher->wait();
    INFO(result.err);
    CHECK(result.code == 130);
    CHECK_THAT(result.err, Catch::Contains("stopped before the ranks were started"));
  }
}

TEST_CASE("AStrangerAtThePortDoesNotDisturbTheMeeting") {
  const TemporaryFolder folder;
  const ReservedPort port;
  const LoadTrainer load = ranks<[](const RankContext&) { return 0; }>();
  Launcher first(load, node(0, port), meeting_for(60), folder.path());
  const NodePlace other{.node = 1, .nodes = 5, .ranks = 9, .host = "h"};
  for (const std::string& text :
       {std::string("GET / HTTP/1.1\r\n\r\n"),
        encode({.word = NodeMessage::Word::kHello, .place = other}),
        encode({.word = NodeMessage::Word::kStop, .number = SIGTERM, .place = other})}) {
    const UniqueFd stranger = stranger_at(port);
    CHECK(write_whole(stranger.get(), text));
    CHECK_THAT(heard_to_the_end(stranger), Catch::StartsWith("gantrain-node 4 "));
  }
  CHECK(first.wait_for("refused 1 connection: it is no launcher of this job"));
  const UniqueFd silent = stranger_at(port);
  Launcher second(load, node(1, port), meeting_for(60), folder.path());
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
}

TEST_CASE("StrangersThatSayNothingAreBoundedAndClosed") {
  const ReservedPort port;
  const LoadTrainer load = ranks<[](const RankContext&) { return 0; }>();
  LaunchOptions options = meeting_for(60);
  const bool bounded = GENERATE(true, false);
  options.hang_timeout = Duration{bounded ? 10.0 : 1.0};  // silence is shorter than both
  Launcher first(load, node(0, port), options);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < (bounded ? 70 : 1); ++i) strangers.push_back(stranger_at(port));
  heard_to_the_end(strangers[0]);
  Launcher second(load, node(1, port), options);
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
}

TEST_CASE("AStrangerPosingAsNode0IsNotObeyed") {
  const TemporaryFolder folder;
  const ReservedPort port;
  write_file(folder / ".job-secret", std::string(64, 'a') + "\n");  // of a job that was killed
  std::filesystem::permissions(folder / ".job-secret", std::filesystem::perms(0600));
  const LoadTrainer load = ranks<[](const RankContext&) { return 0; }>();
  Launcher second(load, node(1, port), meeting_for(60), folder.path());
  {
    const Listener listener = listen_on(port.number(), kLoopback);
    REQUIRE(wait_for(listener.socket.get(), POLLIN, monotonic_seconds() + 60));
    const UniqueFd connected = accept_from(listener);
    write_whole(connected.get(),
                "gantrain-node 4 " + std::string(32, '0') + "\n" + std::string(64, '0') + "\n" +
                    encode({.word = NodeMessage::Word::kStart, .port = 1, .text = "/tmp"}));
    CHECK(second.wait_for("refused what listens there: it has another job secret"));
  }
  Launcher first(load, node(0, port), meeting_for(60), folder.path());
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
}

TEST_CASE("ANodeWithoutTheSecretSaysWhatToDo") {
  const TemporaryFolder folder, elsewhere;
  const ReservedPort port;
  Launcher first(ranks<wait_for_ever>(), node(0, port), meeting_for(60), folder.path());
  Launcher second(ranks<wait_for_ever>(), node(1, port), meeting_for(60), elsewhere.path());
  CHECK(second.wait_for("give all nodes the same GANTRAIN_JOB_SECRET"));
  CHECK(first.wait_for("refused 1 connection"));
  for (Launcher* launcher : {&first, &second}) launcher->signal(SIGTERM);
  CHECK(first.wait().code == 75);
  CHECK(second.wait().code == 75);
}

TEST_CASE("ARunFolderElsewhereIsRefused") {
  clear_shared_numbers();
  const ReservedPort port;
  const LoadTrainer load = ranks<[](const RankContext& c) -> int {
    if (c.attempt != 0) sleep_for_ever();
    if (c.rank() == 0) c.board->set_run_folder("elsewhere/7");
    ++shared_number(static_cast<size_t>(c.rank()));
    while (shared_number(1) == 0) usleep(1000);
    if (c.rank() == 0) raise(SIGKILL);
    sleep_for_ever();
  }>();
  Launcher first(load, node(0, port), restarting(1));
  Launcher second(load, node(1, port), restarting(1));
  CHECK(first.wait().code == 6);
  const auto result = second.wait();
  CHECK(result.code == 4);
  CHECK_THAT(result.err,
             Catch::Contains("node 1: node 0's run folder elsewhere/7 is not in runs, which"));
}

}  // namespace gantrain
