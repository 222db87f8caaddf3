// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <catch2/catch.hpp>

#include "launch/where/network.h"
#include "support/reserved_port.h"
#include "util/error.h"

namespace gantrain {

TEST_CASE("PortZeroIsTheKernelsChoice") {
  const Listener one = listen_on(0, true);
  const Listener two = listen_on(0, false);
  CHECK(one.port > 0);
  CHECK(two.port > 0);
  CHECK(one.port != two.port);
}

TEST_CASE("ABusyPortIsRefusedWithItsHolder") {
  for (const bool held_on_loopback : {true, false}) {
    const Listener held = listen_on(0, held_on_loopback);
    for (const bool loopback_only : {true, false}) {
      try {
        listen_on(held.port, loopback_only);
        FAIL("the port was given twice");
      } catch (const UserError& e) {
        CHECK(e.code() == Exit::kEnvironment);
        CHECK_THAT(e.what(), Catch::Contains("port " + std::to_string(held.port) + " is in use"));
        CHECK_THAT(e.what(), Catch::Contains("pid " + std::to_string(getpid()) + " ("));
        CHECK_THAT(e.what(), Catch::Contains("--master-port"));
      }
    }
  }
}

TEST_CASE("APortIsFreeAgainAfterItsListener") {
  const ReservedPort port;
  for (int i = 0; i < 2; ++i) CHECK(listen_on(port.number(), true).port == port.number());
  CHECK(port_holder(port.number()).empty());
}

TEST_CASE("AMasterThatDoesNotResolveHasAFallback") {
  World world;
  world.master.host = "no-such-host.invalid";
  CHECK(reachable_master(world) == "no-such-host.invalid");
  world.master_fallback = "127.0.0.1";
  CHECK(reachable_master(world) == "127.0.0.1");
  world.master.host = "localhost";
  CHECK(reachable_master(world) == "localhost");
}

}  // namespace gantrain
