// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/tensors.h"
#include "distributed/group.h"
#include "train/run/reporter.h"
#include "train/run/run_start.h"
#include "train/run/trainer.h"
#include "train/save/checkpoint.h"
#include "train/step/training_step.h"

namespace gantrain {

// An elastic run: ranks that work together are a generation. When one of them is lost, or others
// wait to take part, the ranks of the next generation meet, in the processes that they have. They
// go on from the memory of the rank that has come furthest, at the border between two iterations:
// an iteration that a loss has interrupted is computed again, by the new ranks, and nothing else.
// What a run computes so are the bits of one that was told the ranks of each iteration beforehand.

// The state after the last iteration that this rank has finished, in memory of its own. A rank that
// was interrupted has changed the tensors that it trains with.
class BorderMemory {
 public:
  // Copies the state after an iteration. `before`: the images seen before that iteration.
  void keep(const StateTensors& state, const Counters& counters, int64_t before);
  // What is done after that iteration (ticks, saves) is done, too.
  void finish(const Counters& counters);

  int64_t border() const { return kept_ ? counters_.iteration : -1; }
  // The `before` of an iteration after which something is still to be done; -1: nothing is.
  int64_t unfinished() const { return before_; }
  // Puts what is kept into `state` and `counters`; false if nothing is.
  bool recall(const NamedTensors& state, Counters& counters) const;
  // The bytes that keep() will take for such a state beside those that it has taken.
  int64_t still_to_take(const StateTensors& state) const;

 private:
  bool kept_ = false;
  int64_t before_ = -1;
  std::vector<at::Tensor> copies_;
  Counters counters_;
};

// What outlives a generation on this rank.
struct ElasticSession {
  const ElasticHooks& hooks;
  BorderMemory memory = {};
  int64_t ranks_before = 0;  // of the generation before this one; 0: it was in none
  bool regroups = false;     // the present generation has ended for another one
  int64_t unfinished = -1;   // BorderMemory::unfinished() of the rank that goes on
  int64_t saved_at = -1;     // the images seen at the save that was begun last
  bool foretold = false;     // the run's speed has been told
  bool compared = false;     // this rank was started as rank 0 was
};

// What the trainer asks of the generation that it trains in. The ranks of a run that keeps them are
// its first and only one.
class Generation {
 public:
  explicit Generation(const TrainSetup& setup) : setup_(setup), session_(setup.session) {}
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // Joins the group as Group::join() does. In an elastic run it gives up once a rank of the
  // generation is lost, and ends the group's collectives when one is lost later: those who wait for
  // it, or for others that do, would else wait until their time is over.
  std::shared_ptr<Group> join(double timeout_seconds);
  bool is_first() const { return session_ == nullptr || session_->hooks.generation() == 1; }
  // As check_same_start(). In a later generation of several nodes only ranks that are new are
  // compared with rank 0, and each throws UserError(kUsage) for itself: they do not end the run
  // that they join.
  void check_start(const Dataset& dataset, Group& group) const;
  // Puts the state of the rank that has come furthest into every rank's step. Where no rank has
  // finished an iteration yet, it is load_or_begin().
  RunStart begin(const RunOptions& options,
                 TrainingStep& step,
                 Group& group,
                 const ClassTable& classes);
  // On rank 0: the data as a run that begins so knows it; see compare_data().
  Manifest manifest(const RunStart& start, const Dataset& dataset, const RunOptions& options) const;
  void say_ranks(const TrainingStep& step, const Counters& counters) const;

  // The images seen before an iteration that the generation before this one has computed but not
  // finished.
  std::optional<int64_t> unfinished() const;
  // Says on rank 0 of a later generation whether the folder does not have the state of the last
  // save, because the rank 0 of then was lost before it was written.
  bool lost_a_save(const std::filesystem::path& folder, int64_t batch) const;
  bool is_wanted() const { return session_ != nullptr && session_->hooks.wanted(); }
  // After an iteration of an elastic run: keeps its state, and reports how many ranks there are.
  void keep(const TrainingStep& step, const Counters& counters, int64_t before, Reporter& reporter);
  // The bytes that the first keep() will take on the device, for which a fit leaves room.
  int64_t still_to_take(const TrainingStep& step) const {
    return session_ == nullptr ? 0 : session_->memory.still_to_take(step.state());
  }
  // What is done after an iteration is done, or, a save, begun.
  void finish(const Counters& counters, bool saves);
  // Whether the ranks change before the next iteration, on all ranks alike.
  bool ends(const RankRequests& granted, const Counters& counters);
  // As Reporter::foretell(), once in a run.
  void foretell(Reporter& reporter, const Counters& counters, int64_t batch, bool grows);

 private:
  std::shared_ptr<Group> join_whole(double timeout_seconds) const;
  void watch_for_loss();

  const TrainSetup& setup_;
  ElasticSession* session_;
  bool foretold_ = session_ != nullptr && session_->foretold;
  std::shared_ptr<Group> group_;
  std::atomic<bool> ended_ = false;
  std::thread watch_;
};

// Calls `run` for each generation that this rank belongs to, with what is true then, and returns
// what the last one returned. Throws what `run` throws where no rank was lost.
Exit train_elastically(const TrainSetup& setup, const std::function<Exit(const TrainSetup&)>& run);

}  // namespace gantrain
