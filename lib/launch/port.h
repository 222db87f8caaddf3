// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "launch/unique_fd.h"
#include "launch/environment.h"

namespace gantrain {

struct Listener {
  UniqueFd socket;  // listens already: who connects early waits instead of being refused
  int64_t port = 0;
};

// A socket for the store of rank 0, on 127.0.0.1 alone or on all addresses. Port 0: the kernel's
// choice, which nobody can take in between. Throws UserError(kEnvironment) if the port is in use,
// with the pid and command of who holds it where /proc tells.
Listener listen_on(int64_t port, bool loopback_only);

// "pid 4711 (python3 train.py)", or "" if unknown.
std::string port_holder(int64_t port);

// master_addr if it resolves, else master_fallback if that does, else master_addr all the same.
std::string reachable_master(const World& world);

}  // namespace gantrain
