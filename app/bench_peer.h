// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/value.h"

namespace gantrain {

// A Python script that runs the same benchmark under PyTorch.
struct Peer {
  std::string python;              // the interpreter
  std::string script;              // path of the script
  std::vector<std::string> unset;  // environment variables that it does without
};

// Returns why the peer cannot be run with torch of that version ("2.11"), or "" if it can.
std::string why_not(const Peer& peer, const std::string& version);
// Returns why the interpreter cannot import those modules ("PIL, zipfile"), or "" if it can.
std::string why_not_import(const Peer& peer, const std::string& modules);

// Runs a script and returns the last line of its standard output that is JSON. If that fails,
// throws UserError(kEnvironment) with the last line that the command wrote.
Json run_peer(const Peer& peer, const std::vector<std::string>& arguments);

// Runs the script under torchrun, with one thread in each rank; for the rest as run_peer() does.
Json run_under_torchrun(const Peer& peer, int64_t ranks, const std::vector<std::string>& arguments);

}  // namespace gantrain
