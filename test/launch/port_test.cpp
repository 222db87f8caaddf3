// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <unistd.h>

#include "launch/local/supervise.h"
#include "launch/where/network.h"
#include "support/catch.h"
#include "support/reserved_port.h"
#include "util/error.h"

namespace gantrain {

TEST_CASE("TheLimitOfOpenFilesIsRaisedOrRefusedWithBothNumbers") {
  // In a child, because a hard limit cannot be raised again.
  const auto limit_after = [](rlim_t soft, rlim_t hard, int64_t needed) {
    return run_local_ranks(
               1,
               60,
               [&](const Rendezvous&) {
                 rlimit limit{soft, hard};
                 ::setrlimit(RLIMIT_NOFILE, &limit);
                 try {
                   need_descriptors(needed, "a rank of 600 ranks");
                 } catch (const UserError& e) {
                   return std::string(e.code() == Exit::kEnvironment ? e.what() : "another code");
                 }
                 ::getrlimit(RLIMIT_NOFILE, &limit);
                 return std::to_string(limit.rlim_cur);
               })
        .at(0);
  };
  CHECK(limit_after(100, 150, 90) == "100");
  CHECK(limit_after(100, 150, 120) == "150");
  CHECK_THAT(
      limit_after(100, 150, 800),
      Catch::Contains("a rank of 600 ranks may have to open 800 files at a time, and 150 are "
                      "allowed"));
}

TEST_CASE("PortZeroIsTheKernelsChoice") {
  const Listener one = listen_on(0, kLoopback);
  const Listener two = listen_on(0, kAllAddresses);
  CHECK(one.port > 0);
  CHECK(two.port > 0);
  CHECK(one.port != two.port);
}

TEST_CASE("ABusyPortIsRefusedWithItsHolder") {
  for (const auto& held_on : {kLoopback, kAllAddresses}) {
    const Listener held = listen_on(0, held_on);
    for (const auto& addresses : {kLoopback, kAllAddresses}) {
      try {
        listen_on(held.port, addresses);
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
  for (int i = 0; i < 2; ++i) CHECK(listen_on(port.number(), kLoopback).port == port.number());
  CHECK(port_holder(port.number()).empty());
}

TEST_CASE("AListenerIsReachedAtTheMastersAddressAlone") {
  CHECK(addresses_to_bind("127.0.0.1") == kLoopback);
  CHECK(addresses_to_bind("::1") == std::vector<std::string>{"::1"});
  for (const std::string& address : addresses_to_bind("localhost"))
    CHECK((address == "::1" || address == "127.0.0.1"));
  CHECK(addresses_to_bind("no-such-host.invalid") == kAllAddresses);
  CHECK(addresses_to_bind("192.0.2.1") == kAllAddresses);  // of documents, not of this machine
  for (const Interface& interface : network_interfaces()) {
    if (interface.name == "lo") continue;
    for (const std::string& address : interface.addresses)
      CHECK(addresses_to_bind(address) == std::vector<std::string>{address});
  }
  std::string problem;
  const Listener one = listen_on(0, addresses_to_bind("127.0.0.1"));
  CHECK(connect_to({"127.0.0.1", one.port}, 60, problem));
  CHECK_FALSE(connect_to({"127.0.0.2", one.port}, 60, problem));
  const Listener all = listen_on(0, kAllAddresses);
  CHECK(connect_to({"127.0.0.2", all.port}, 60, problem));
  CHECK(listen_on(0, addresses_to_bind("localhost")).port > 0);
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
