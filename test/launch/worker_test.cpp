// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <stdexcept>

#include "launch_helper.h"
#include "reserved_port.h"
#include "util/error.h"

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

Launcher run(int64_t rank, const ReservedPort& port, RankMain main) {
  return Launcher([main] { return main; }, worker(rank, port), {});
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

}  // namespace gantrain
