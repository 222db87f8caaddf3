// SPDX-License-Identifier: Apache-2.0
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include "distributed/meeting.h"
#include "support/catch.h"
#include "util/system.h"

using namespace gantrain;

namespace {

// Whether this machine has an IPv4 address beside the loopback's.
bool has_network() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return false;
  bool found = false;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    found |= one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET &&
             (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
  }
  freeifaddrs(all);
  return found;
}

}  // namespace

TEST_CASE("NodesOnOneMachineMeetOnTheLoopback") {
  CHECK(local_address({"127.0.0.1", 4711}) == "127.0.0.1");
  CHECK(local_address({"127.0.0.9", 4711}).substr(0, 4) == "127.");
  const std::string local = local_address({"localhost", 4711});
  CHECK((local == "127.0.0.1" || local == "::1"));
}

// Debian resolves the host's own name to 127.0.1.1, which no other node could reach.
TEST_CASE("TheOwnHostsNameGivesAnAddressThatOthersReach") {
  if (!has_network()) {
    WARN("skipped: this machine has no network but the loopback");
    return;
  }
  const std::string own = local_address({host_name(), 4711});
  CHECK(!own.empty());
  CHECK(own.substr(0, 4) != "127.");
  const std::string unknown = local_address({"no-such-host.invalid", 4711});
  CHECK(unknown.substr(0, 4) != "127.");
}
