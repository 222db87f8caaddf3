// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/value.h"

namespace gantrain {

// A Python script that runs the same benchmark under PyTorch.
struct Peer {
  std::string python;  // the interpreter
  std::string script;  // path of the script
};

// Returns why the peer cannot be run with torch of that version ("2.11"), or "" if it can.
std::string why_not(const Peer& peer, const std::string& version);

// Runs the script under torchrun, with one thread in each rank, and returns the last line of its
// standard output that is JSON. If that fails, throws UserError(kEnvironment) with the last line
// that the command wrote.
Json run_under_torchrun(const Peer& peer, int64_t ranks, const std::vector<std::string>& arguments);

}  // namespace gantrain
