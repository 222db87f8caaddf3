// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launch/local/unique_fd.h"
#include "launch/where/environment.h"

namespace gantrain {

struct Listener {
  UniqueFd socket;  // It listens already, so that who connects early waits and is not refused.
  int64_t port = 0;
};

// Opens a socket for the store of rank 0, on 127.0.0.1 alone or on all addresses. Port 0 lets the
// kernel choose; since the socket listens at once, nobody else can take that port meanwhile. Throws
// UserError(kEnvironment) if the port is in use, with the pid and the command of the process that
// holds it if /proc shows them.
Listener listen_on(int64_t port, bool loopback_only);

// A connection that has come; an empty one if there is none. It never waits.
UniqueFd accept_from(const Listener& listener);

// Tries once to connect, for at most so many seconds. If that fails, it returns an empty one and
// says why in `problem`.
UniqueFd connect_to(const Endpoint& endpoint, double seconds, std::string& problem);

// Which process listens on the port: "pid 4711 (python3 train.py)", or "" if that is not known.
std::string port_holder(int64_t port);

// The host at which ranks look for rank 0: world.master.host, unless that does not resolve and
// world.master_fallback does.
std::string reachable_master(const World& world);

// A network interface of this machine.
struct Interface {
  std::string name;                    // "eth0"
  std::vector<std::string> addresses;  // IPv4 and IPv6, without those of the link alone
  bool up = false;
};

std::vector<Interface> network_interfaces();

// The names of those over which NCCL makes connections, where `setting` is the value of
// NCCL_SOCKET_IFNAME: beginnings of names, separated by commas; "=" in front makes them whole
// names, "^" those to leave out. With "" NCCL takes what it prefers: InfiniBand's, then any but
// docker's, virtual bridges' and the loopback, then these.
std::vector<std::string> nccl_interfaces(const std::vector<Interface>& all,
                                         const std::string& setting);

// Names of InfiniBand and RoCE devices ("mlx5_0"), in order. `sys` is another folder in tests.
std::vector<std::string> infiniband_devices(const std::filesystem::path& sys = "/sys");

}  // namespace gantrain
