// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "util/rank_info.h"

namespace gantrain {

// Returns the numeric address under which the other nodes reach this one: that of the interface
// over which `master` is reached. Many systems resolve their own host's name to a loopback address;
// then it is the first address of an interface that is up. A master given as a loopback address
// ("127.0.0.1", "localhost", "::1") means that all nodes are on this machine: then it is that
// address. Returns "" where none can be found.
std::string local_address(const Endpoint& master);

}  // namespace gantrain
