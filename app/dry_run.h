// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/config.h"
#include "distributed/options.h"
#include "launch/environment.h"
#include "launch/options.h"

namespace gantrain {

// What is known of a run before any process is started.
struct Launch {
  Config config;
  LaunchOptions options;
  World world;
  DeviceKind device = DeviceKind::kCpu;  // cpu or cuda
  BackendKind backend = BackendKind::kGloo;
  bool device_was_auto = false;
  int64_t gpus = 0;                 // visible and usable
  std::vector<std::string> chosen;  // lines: what the recipe chose, and why
};

// Prints every key with its value and origin, and the schedule, to standard output. Returns 0.
int dry_run(const Launch& launch, bool json);

}  // namespace gantrain
