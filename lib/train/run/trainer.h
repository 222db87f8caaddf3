// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/pictures/dataset.h"
#include "distributed/group.h"
#include "gan/recipe.h"

namespace gantrain {

// How the trainer talks with what surrounds it: the launcher that started this rank, or a test.
struct TrainCallbacks {
  // Returns the number of the signal that asked this rank to stop, or 0.
  std::function<int()> stop_signal = [] { return 0; };
  // Called when the trainer begins something else, with its name, for example "saving".
  std::function<void(const std::string& name)> phase = [](const std::string&) {};
  // Called when a stage begins, with the images of a rank that are computed with at a time.
  std::function<void(int64_t images)> micro_batch = [](int64_t) {};
  // Called after each iteration.
  std::function<void(int64_t images_seen, int64_t iteration)> progress = [](int64_t, int64_t) {};
  // Called once, when the folder of the run's files is known.
  std::function<void(const std::string& folder)> run_folder = [](const std::string&) {};
  // Where this rank's collectives are noted, for the launcher to compare ranks that hang. Null:
  // nowhere.
  RankTrace* trace = nullptr;
  // Called when the writing of a save begins, and, from the writer's thread, when it has ended.
  std::function<void(bool now)> saves = [](bool) {};
  // monotonic_seconds() when the command began. The time of --stop-after is counted from here.
  double started = 0;
  // monotonic_seconds() at which the run is to save and stop, because its allocation ends soon
  // after (--time-margin); 0: never. What rank 0 is given counts.
  double stop_at = 0;
};

// What an elastic run asks of whoever has started this rank. Any thread may call all but `meet`.
struct ElasticHooks {
  // Waits for the next generation of ranks, and says where they meet; nothing: this process is not
  // needed any more. `border`: the iterations after which this rank has the state; -1: it has none.
  std::function<std::optional<Rendezvous>(int64_t border)> meet;
  std::function<int64_t()> generation;  // the present one; the run's first is 1
  std::function<bool()> lost;           // whether a rank of the present generation is lost
  std::function<bool()> wanted;         // whether others wait to take part
  std::function<int64_t(int64_t iteration)> planned;  // ranks of that iteration; 0: no plan
  std::function<std::string()> run_folder;            // the run's, once there is one
  std::function<int()> stop_signal;                   // as in TrainCallbacks
};
struct ElasticSession;

// All that one rank needs to train.
struct TrainSetup {
  const Config& config;
  Rendezvous rendezvous;
  BackendKind backend = BackendKind::kGloo;
  at::Device device;
  RecipeRow recipe;
  std::string command;              // for command.txt, and for the line that says how to resume
  std::string defaults;             // what was not asked for but chosen, in one line
  std::vector<std::string> chosen;  // what the recipe chose by size and ranks, and why
  TrainCallbacks callbacks;
  std::shared_ptr<const Dataset> dataset;  // null: the trainer opens data.* itself
  const ElasticHooks* elastic = nullptr;   // null: the run keeps its ranks
  ElasticSession* session = nullptr;       // of an elastic run; train() makes it
};

// Trains until the end or until a stop is asked for. Returns kDone, kStopped or kInterrupted.
// Throws UserError for what the user can fix.
Exit train(const TrainSetup& setup);

}  // namespace gantrain
