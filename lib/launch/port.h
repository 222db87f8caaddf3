// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "launch/environment.h"
#include "launch/unique_fd.h"

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

// Which process listens on the port: "pid 4711 (python3 train.py)", or "" if that is not known.
std::string port_holder(int64_t port);

// The host at which ranks look for rank 0: world.master.host, unless that does not resolve and
// world.master_fallback does.
std::string reachable_master(const World& world);

}  // namespace gantrain
