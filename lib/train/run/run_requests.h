// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <string>

#include "config/config.h"
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

  // Why the run stops: "signal 15", "STOP", "--stop-after", "--time-margin", "another rank asked".
  std::string stop_reason() const;

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

// What a run does now and then beside training: a row of statistics (a tick), the comparison of
// ranks, a grid of samples, a state with its model. Where nobody has said how often, occasions are
// left out that come too soon: ticks 5 seconds after the last one, and the others where one more,
// as long as the last, would take more than their share of the session's time. Rank 0's clock
// counts; the other ranks hear of it in the all-reduce that ends an iteration (RankRequests).
class Chores {
 public:
  enum Kind { kTick, kCheck, kSample, kSave };
  static constexpr double kBetweenTicks = 5;      // seconds
  static constexpr double kLargestShare = 0.009;  // so that with ticks all stay below 3 %

  explicit Chores(const Config& config);

  // On rank 0: what there is time for now, in monotonic seconds; the bits 1 << Kind.
  int64_t affordable(double now);
  // Puts that into what a rank asks for in an iteration.
  void note_affordable(RankRequests& mine, double now, int64_t iteration);
  // Whether an occasion is taken after so many iterations: the same on all ranks, by what all have
  // `heard` of rank 0.
  bool takes(Kind kind, const RankRequests& heard, int64_t iterations);
  // On rank 0: it was done between these monotonic seconds.
  void did(Kind kind, double begun, double ended);
  // Does it.
  void run(Kind kind, const std::function<void()>& work);

 private:
  struct Chore {
    bool exact = false;      // somebody has said how often
    bool said = false;       // that occasions are left out
    double spent = 0;        // seconds in this session
    double last = 0;         // of which the last time
    double ended = 0;        // monotonic seconds
    int64_t done_after = 0;  // iterations
  };
  std::array<Chore, 4> all_;
  double begun_ = 0;  // monotonic seconds; 0: not yet
};

}  // namespace gantrain
