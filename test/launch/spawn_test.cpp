// SPDX-License-Identifier: Apache-2.0
#include "launch/local/spawn.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "launch/where/network.h"
#include "launch_helper.h"
#include "support/catch.h"
#include "util/error.h"

namespace gantrain {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

// A shell that becomes the launcher by exec has started it: `sidecar & exec gantrain`.
TEST_CASE("WhatAProcessHadStartedBeforeItLaunchedIsLeftAlone") {
  clear_shared_numbers();
  const pid_t launcher = fork();
  if (launcher == 0) {
    const pid_t sidecar = fork();
    if (sidecar == 0) sleep_for_ever();
    LaunchOptions options;
    options.device = DeviceKind::kCpu;
    const ResumeHint hint = [](const std::string&) { return std::string(); };
    const auto end =
        launch({local_world(1), options, "{}", [] { return done; }, hint, {}, "", "runs", nullptr});
    shared_number(0) = is_alive(sidecar) ? 1 : 2;
    ::kill(sidecar, SIGKILL);
    _exit(end.code);
  }
  int status = -1;
  REQUIRE(waitpid(launcher, &status, 0) == launcher);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(shared_number(0) == 1);
}

TEST_CASE("RanksHaveTheVariablesOfTorchrun") {
  unsetenv("OMP_NUM_THREADS");
  LaunchOptions options;
  options.threads = 3;
  const auto result =
      Launcher(
          [](const RankContext& c, const char* config) -> int {
            const bool same =
                variable("RANK") == std::to_string(c.rank()) &&
                variable("LOCAL_RANK") == std::to_string(c.ranks().local_rank) &&
                variable("WORLD_SIZE") == "2" && variable("LOCAL_WORLD_SIZE") == "2" &&
                variable("GROUP_RANK") == "0" && variable("NODE_RANK") == "0" &&
                variable("MASTER_ADDR") == "127.0.0.1" && c.rendezvous.master.host == "127.0.0.1" &&
                variable("MASTER_PORT") == std::to_string(c.rendezvous.master.port) &&
                variable("OMP_NUM_THREADS") == "3" && c.threads == 3 &&
                std::string(config) == "{}" && c.ranks().world == 2 && c.board->ranks() == 2;
            return same ? 0 : 9;
          },
          2,
          options)
          .wait();
  CHECK(result.code == 0);
}

TEST_CASE("ARankWaitsBrieflyForNameServersUnlessTheUserSaysHowLong") {
  const std::string users = GENERATE("", "timeout:7");
  unsetenv("RES_OPTIONS");
  if (!users.empty()) setenv("RES_OPTIONS", users.c_str(), 1);
  const auto result =
      Launcher(
          [](const RankContext&, const char*) -> int {
            const std::string have = variable("RES_OPTIONS");
            return have == "timeout:1 attempts:2" ? 75 : have == "timeout:7" ? 5 : 9;
          },
          1)
          .wait();
  CHECK(result.code == (users.empty() ? 75 : 5));
}

TEST_CASE("TheUsersThreadVariableStaysAsItIs") {
  setenv("OMP_NUM_THREADS", "4,2", 1);
  const auto result = Launcher(
                          [](const RankContext& c, const char*) -> int {
                            return variable("OMP_NUM_THREADS") == "4,2" && c.threads == 4 ? 0 : 9;
                          },
                          1)
                          .wait();
  CHECK(result.code == 0);
}

TEST_CASE("RankZeroAloneHasTheListeningSocket") {
  const auto result = Launcher(
                          [](const RankContext& c, const char*) -> int {
                            if (c.rank() == 0) {
                              const int peer = accept(c.rendezvous.listen_fd, nullptr, nullptr);
                              return peer >= 0 ? 0 : 9;
                            }
                            sockaddr_in to{};
                            to.sin_family = AF_INET;
                            to.sin_port = htons(static_cast<uint16_t>(c.rendezvous.master.port));
                            to.sin_addr.s_addr = inet_addr(c.rendezvous.master.host.c_str());
                            const int fd = socket(AF_INET, SOCK_STREAM, 0);
                            const bool connected =
                                connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
                            return c.rendezvous.listen_fd == -1 && connected ? 0 : 9;
                          },
                          2)
                          .wait();
  CHECK(result.code == 0);
}

TEST_CASE("ABusyMasterPortEndsTheStart") {
  const Listener held = listen_on(0, kLoopback);
  LaunchOptions options;
  World world;
  world.master.port = held.port;
  const auto result = Launcher([] { return RankMain(done); }, world, options).wait();
  CHECK(result.code == 4);
  CHECK_THAT(result.err,
             Catch::Contains("port " + std::to_string(held.port) + " is in use by pid "));
}

TEST_CASE("AnErrorWhileLoadingIsPrintedOnce") {
  World world;
  world.ranks.world = world.ranks.local_world = 3;
  auto result =
      Launcher([]() -> RankMain { fail(Exit::kEnvironment, "no trainer here"); }, world, {}).wait();
  CHECK(result.code == 4);
  CHECK(result.err == "error   no trainer here\n");
  result = Launcher([]() -> RankMain { std::abort(); }, world, {}).wait();
  CHECK(result.code == 1);
  CHECK_THAT(result.err, Catch::Contains("loading the trainer died of signal 6 (SIGABRT)"));
}

}  // namespace gantrain
