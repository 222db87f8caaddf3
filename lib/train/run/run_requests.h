// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "train/run/trainer.h"
#include "train/step/training_step.h"

namespace gantrain {

// What is asked of a run at work, as this rank knows of it: a stop by a signal, by --stop-after and
// by --time-margin; by the files STOP and SAVE in the run folder, which rank 0 looks for.
class RunRequests {
 public:
  // `stop_after`: seconds since the command began, 0 for no limit. `leads`: this is rank 0.
  RunRequests(const TrainCallbacks& callbacks, double stop_after, bool leads)
      : callbacks_(callbacks), stop_after_(stop_after), leads_(leads) {}

  // Looks for the files in this folder from now on.
  void look_in(const std::filesystem::path& folder) { folder_ = folder; }

  // What this rank asks of all ranks now.
  RankRequests poll();

  // What was asked for was saved.
  void saved() { asked_.save = false; }

  // Whether metrics are measured at present, which a stop ends and SAVE waits for.
  void measuring(bool at_present) { measuring_ = at_present; }

  // Why the run stops: "STOP", "--stop-after", "--time-margin", "another rank asked".
  const std::string& stop_reason() const { return stop_reason_; }

 private:
  void look_for_files();

  const TrainCallbacks& callbacks_;
  double stop_after_;
  bool leads_;
  std::filesystem::path folder_;
  double look_at_ = 0;  // monotonic seconds: for the files, not before
  RankRequests asked_;  // until all ranks know of them
  std::string stop_reason_ = "another rank asked";
  bool measuring_ = false;
};

}  // namespace gantrain
