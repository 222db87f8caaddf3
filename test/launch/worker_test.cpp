// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "launch_helper.h"
#include "support/catch.h"
#include "support/reserved_port.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/system.h"

namespace gantrain {

namespace {

World worker(int64_t rank, const ReservedPort& port) {
  World world;
  world.role = World::Role::kWorker;
  world.source = "mpi";
  world.ranks.rank = world.ranks.local_rank = rank;
  world.ranks.world = world.ranks.local_world = 2;
  world.master.port = port.number();
  return world;
}

Launcher run(int64_t rank, const ReservedPort& port, RankMain main, LaunchOptions options = {}) {
  return Launcher([main] { return main; }, worker(rank, port), options);
}

int stop_when_asked(const RankContext& c, const char*) {
  shared_number(0) = getpid();
  while (*c.stop == 0) usleep(1000);
  shared_number(1) = *c.stop;
  return 75;
}

int never_stop(const RankContext&, const char*) {
  shared_number(0) = getpid();
  while (true) usleep(1000);
}

// Starts a worker below a process that dies of SIGKILL as soon as the rank has given its process id
// in the first shared number. Returns that id.
pid_t orphan_of(const World& world,
                const LoadTrainer& load,
                const LaunchOptions& options,
                bool of_torchrun = false) {
  clear_shared_numbers();
  const pid_t starter = fork();
  if (starter == 0) {
    if (of_torchrun) {
      ::setenv("TORCHELASTIC_RUN_ID", "1", 1);
    } else {
      ::unsetenv("TORCHELASTIC_RUN_ID");
    }
    Launcher launcher(load, world, options);
    const Launcher::Result result = launcher.wait();
    _exit(result.code);
  }
  const bool there = eventually([] { return shared_number(0) != 0; }, 60);
  ::kill(starter, SIGKILL);
  waitpid(starter, nullptr, 0);
  REQUIRE(there);
  return static_cast<pid_t>(shared_number(0));
}

// Whether it ends within so many seconds. It is killed if it does not.
bool ends(pid_t rank, double seconds) {
  const bool ended = eventually([&] { return !is_alive(rank); }, seconds);
  if (!ended) ::kill(rank, SIGKILL);
  return ended;
}

bool orphan_ends(const ReservedPort& port, RankMain main, const LaunchOptions& options) {
  return ends(orphan_of(
                  worker(1, port), [main] { return main; }, options),
              8);
}

World torchrun_worker(const ReservedPort& port) {
  World world = worker(1, port);
  world.source = "torchrun";
  return world;
}

RankMain load_stop_when_asked() { return stop_when_asked; }

// Loads until the starter has died.
RankMain load_slowly() {
  const pid_t starter = getppid();
  shared_number(0) = getpid();
  while (getppid() == starter) usleep(1000);
  return stop_when_asked;
}

std::string run_folder;  // of the mains below, which are functions

void begin_to_train(const RankContext& c) {
  c.board->set_run_folder(run_folder);
  c.slot().set_phase("D backward");
  c.slot().beat(7, 4000);
  shared_number(static_cast<size_t>(c.rank())) = getpid();
}

int train(const RankContext& c, const char*) {
  begin_to_train(c);
  while (true) usleep(1000);
}

// Until rank 1 has died.
int lose_a_peer(const RankContext& c, const char*) {
  begin_to_train(c);
  while (is_alive(static_cast<pid_t>(shared_number(1)))) usleep(1000);
  throw std::runtime_error("Connection closed by peer [127.0.0.1]:4711");
}

bool begins(int64_t rank) {
  return eventually([rank] { return shared_number(static_cast<size_t>(rank)) != 0; }, 60);
}

}  // namespace

TEST_CASE("AWorkerIsARankOfItsOwn") {
  const RankMain main = [](const RankContext& c, const char*) -> int {
    const bool serves = c.rank() == 0 ? c.rendezvous.listen_fd >= 0 : c.rendezvous.listen_fd < 0;
    const char* rank = std::getenv("RANK");
    return serves && rank != nullptr && std::to_string(c.rank()) == rank && c.ranks().world == 2
               ? 0
               : 9;
  };
  const ReservedPort port;
  CHECK(run(0, port, main).wait().code == 0);
  CHECK(run(1, port, main).wait().code == 0);
}

TEST_CASE("AWorkerReportsWhatItThrows") {
  const ReservedPort port;
  auto result = run(1, port, [](const RankContext&, const char*) -> int {
                  throw std::runtime_error("a bug");
                }).wait();
  CHECK(result.code == 1);
  CHECK_THAT(result.err, Catch::Contains("rank 1 (") && Catch::Contains("a bug"));
  result = run(0, port, [](const RankContext&, const char*) -> int {
             fail(Exit::kInput, "photo.png is broken");
           }).wait();
  CHECK(result.code == 3);
  CHECK(result.err == "error   photo.png is broken\n");
}

TEST_CASE("AWorkerStopsAtSigintToo") {
  const ReservedPort port;
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) {
    Launcher launcher = run(1, port, [](const RankContext& c, const char*) -> int {
      fprintf(stderr, "ready\n");
      while (*c.stop == 0) usleep(1000);
      return *c.stop == SIGINT ? 130 : 75;
    });
    REQUIRE(launcher.wait_for("ready"));
    launcher.signal(number);
    CHECK(launcher.wait().code == (number == SIGINT ? 130 : 75));
  }
}

TEST_CASE("AWorkerWhosePeerDiedEndsWithTheCodeForThatAndRank0AloneSaysIt") {
  const int64_t rank = GENERATE(0, 1);
  const ReservedPort port;
  const auto result = run(rank, port, [](const RankContext&, const char*) -> int {
                        throw std::runtime_error("Connection closed by peer [127.0.0.1]:4711");
                      }).wait();
  CHECK(result.code == 6);
  CHECK((result.err.find("Connection closed by peer") != std::string::npos) == (rank == 0));
}

TEST_CASE("AWorkerNamesTheRankThatWasKilled") {
  const ReservedPort port;
  const TemporaryFolder folder;
  run_folder = folder.path();
  clear_shared_numbers();
  Launcher killed = run(1, port, train);
  REQUIRE(begins(1));
  Launcher victim = run(0, port, lose_a_peer);
  REQUIRE(begins(0));
  killed.signal(SIGKILL);
  const auto result = victim.wait();
  CHECK(result.code == 6);
  CHECK_THAT(
      result.err,
      Catch::StartsWith(fmt::format(
          "error   rank 1 ({}, pid {}) died of signal 9 (SIGKILL)", host_name(), killed.pid())));
  CHECK(result.err.find("rank 0") == std::string::npos);
}

TEST_CASE("AWorkerNamesTheRankThatIsStopped") {
  const ReservedPort port;
  const TemporaryFolder folder;
  run_folder = folder.path();
  clear_shared_numbers();
  LaunchOptions options;
  options.hang_timeout.seconds = 0;
  Launcher stopped = run(1, port, train, options);
  REQUIRE(begins(1));
  ::kill(stopped.pid(), SIGSTOP);
  options.hang_timeout.seconds = 1;
  const auto result = run(0, port, train, options).wait();
  CHECK(result.code == 6);
  const std::string named =
      fmt::format("error   no progress for 1s (--hang-timeout): rank 1 ({}, pid {})",
                  host_name(),
                  stopped.pid());
  CHECK_THAT(result.err, Catch::StartsWith(named));
}

TEST_CASE("AnOrphanedWorkerSavesAndStops") {
  const ReservedPort port;
  CHECK(orphan_ends(port, stop_when_asked, {}));
  CHECK(shared_number(1) == SIGTERM);
}

TEST_CASE("AnOrphanOfTorchrunStops") {
  const ReservedPort port;
  CHECK(ends(orphan_of(torchrun_worker(port), load_stop_when_asked, {}, true), 8));
  CHECK(shared_number(1) == SIGTERM);
}

TEST_CASE("AWorkerStartedByHandOutlivesItsStarter") {
  const ReservedPort port;
  const pid_t rank = orphan_of(torchrun_worker(port), load_stop_when_asked, {});
  CHECK(!eventually([&] { return !is_alive(rank) || shared_number(1) != 0; }, 2));
  ::kill(rank, SIGTERM);
  CHECK(ends(rank, 8));
  CHECK(shared_number(1) == SIGTERM);
}

TEST_CASE("AWorkerThatWasOrphanedWhileLoadingStops") {
  const ReservedPort port;
  CHECK(ends(orphan_of(worker(1, port), load_slowly, {}), 8));
  CHECK(shared_number(1) == SIGTERM);
}

TEST_CASE("AnOrphanedWorkerThatDoesNotStopIsEnded") {
  const ReservedPort port;
  LaunchOptions options;
  options.grace.seconds = 0.5;
  CHECK(orphan_ends(port, never_stop, options));
}

TEST_CASE("AWorkerWithoutProgressEndsAfterTheHangTimeout") {
  const ReservedPort port;
  LaunchOptions options;
  options.hang_timeout.seconds = 1;
  const auto hang = [](const RankContext& c, const char*) -> int {
    c.slot().set_phase("D backward");
    c.slot().beat(7, 4000);
    while (true) usleep(1000);
  };
  const auto result = run(1, port, hang, options).wait();
  CHECK(result.code == 6);
  CHECK_THAT(
      result.err,
      Catch::Contains("no progress for 1s (--hang-timeout)") && Catch::Contains("D backward"));
}

TEST_CASE("AWorkerThatGivesSignsOfLifeOutlivesTheHangTimeout") {
  const ReservedPort port;
  LaunchOptions options;
  options.hang_timeout.seconds = 1;
  const auto slow = [](const RankContext& c, const char*) -> int {
    for (int i = 0; i < 20; ++i) {
      c.slot().beat(i, i);
      usleep(100'000);
    }
    return 0;
  };
  CHECK(run(1, port, slow, options).wait().code == 0);
}

}  // namespace gantrain
