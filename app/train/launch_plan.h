// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "distributed/options.h"
#include "launch/options.h"
#include "launch/where/environment.h"
#include "util/error.h"

namespace gantrain {

// What is known of a run before any process is started.
struct Launch {
  Config config;
  LaunchOptions options;
  World world;
  DeviceKind device = DeviceKind::kCpu;  // cpu or cuda
  BackendKind backend = BackendKind::kGloo;
  bool device_was_auto = false;
  int64_t gpus = 0;                                     // visible and usable
  std::vector<std::string> chosen;                      // lines: what the recipe chose, and why
  int stopped_code = static_cast<int>(Exit::kStopped);  // --stopped-code

  // The exit code of this process where the run ended with `code`.
  int code_of(int code) const {
    return code == static_cast<int>(Exit::kStopped) ? stopped_code : code;
  }
};

// All that can be refused before a process is started or a file is written. If `planned`, nothing
// will be started here, and --device cuda is a plan for any machine.
Launch prepare(const Config& config, bool flags_given, bool planned);

// How much a dry run prints: the keys that something other than a default set, or every key, or one
// JSON line with every key.
enum class Shown { kSet, kAll, kJson };

// Prints keys with their values and origins, and the schedule that follows from them, to standard
// output. Returns 0.
int dry_run(const Launch& launch, Shown shown);

}  // namespace gantrain
