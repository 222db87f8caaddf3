// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/value.h"
#include "distributed/options.h"
#include "launch/options.h"
#include "util/log.h"

namespace gantrain {

// What `gantrain train` tells the trainer library. Every rank of a run gets the same request, as
// the JSON text of message_of() (config/message.h).
struct TrainRequest {
  Json config;                               // Config::to_json()
  std::string command;                       // the command line, for command.txt
  std::string defaults;                      // one line: values that were chosen, not asked for
  std::vector<std::string> chosen;           // lines: what the recipe chose, and why
  DeviceKind device = DeviceKind::kCpu;      // kCpu or kCuda
  int64_t gpus = 0;                          // GPUs that this node's ranks can use
  BackendKind backend = BackendKind::kGloo;  // kGloo or kNccl
  double started = 0;                        // monotonic_seconds() when the command began
  int64_t sharers = 1;                       // ranks that are forked once the data set is open
  Level level = Level::kInfo;                // of messages on standard error
};

template <class Field>
void fields(TrainRequest& r, Field&& field) {
  field("config", r.config);
  field("command", r.command);
  field("defaults", r.defaults);
  field("chosen", r.chosen);
  field("device", r.device);
  field("gpus", r.gpus);
  field("backend", r.backend);
  field("started", r.started);
  field("sharers", r.sharers);
  field("level", r.level);
}

}  // namespace gantrain
