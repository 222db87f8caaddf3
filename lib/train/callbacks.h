// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "distributed/group.h"
#include "gan/recipe.h"

namespace gantrain {

// What a rank's surroundings give to the trainer and want to hear from it. The launcher shares a
// page of memory with its ranks; a worker of another launcher keeps its own.
struct TrainCallbacks {
  std::function<int()> stop_signal = [] {
    return 0;
  };  // number of the signal that asked to stop, or 0
  std::function<void(const std::string&)> phase = [](const std::string&) {};
  std::function<void(int64_t images_seen, int64_t iteration)> progress = [](int64_t, int64_t) {};
  std::function<void(const std::string& folder)> run_folder = [](const std::string&) {};
  double started = 0;  // monotonic_seconds() when the command began: --stop-after counts from there
};

struct TrainSetup {
  const Config& config;
  Rendezvous rendezvous;
  BackendKind backend = BackendKind::kGloo;
  at::Device device;
  RecipeRow recipe;
  std::string command;              // for command.txt, and for the line that says how to resume
  std::string defaults;             // what was not asked for but chosen, in one line
  std::vector<std::string> chosen;  // what the recipe chose by size and ranks, and why
  TrainCallbacks host;
  std::shared_ptr<const Dataset> dataset;  // null: the trainer opens data.* itself
};

// Trains to the end, or to a stop request. Returns kDone, kStopped or kInterrupted; throws
// UserError for what the user can mend.
Exit train(const TrainSetup& setup);

}  // namespace gantrain
