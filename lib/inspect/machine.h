// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/config.h"
#include "launch/where/devices.h"

namespace gantrain {

// Returns what can be seen of this machine and this build without LibTorch, in the order in which
// it is shown: name -> text, number or array. `cuda_library` is the path of the CUDA library, "" if
// it was not built. It takes seconds where the libraries are not in the disk's cache.
Json machine_facts(const GpuOutlook& outlook, const std::string& cuda_library);

// Prints such facts to standard output: as one JSON line, or a line for each fact and for each
// element of an array.
void print_facts(const Json& facts, bool json);

// A run that --dry-run=full describes (describe() in inspect/inspect.h).
struct DescribeRequest {
  Config config;
  bool json = false;    // one JSON line instead of tables
  bool cuda = false;    // the run is to compute on GPUs
  int64_t world = 1;    // ranks of the run
  int64_t threads = 1;  // threads of the measurement on this machine's CPU
};

}  // namespace gantrain
