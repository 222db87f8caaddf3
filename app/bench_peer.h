// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/value.h"

namespace gantrain {

// A Python script that does the same under PyTorch.
struct Peer {
  std::string python;
  std::string script;
};

// Why it cannot be run with torch of that version ("2.11"); "" if it can.
std::string why_not(const Peer& peer, const std::string& version);

// Runs the script under torchrun, one thread a rank, and returns the last line of its standard
// output that is JSON. Throws UserError(kEnvironment) with the command's last line.
Json run_under_torchrun(const Peer& peer, int64_t ranks, const std::vector<std::string>& arguments);

}  // namespace gantrain
