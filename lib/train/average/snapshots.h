// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gan/class_table.h"
#include "train/average/power_average.h"
#include "train/options.h"
#include "train/save/checkpoint.h"

namespace gantrain {

// The averages that other snapshots are told by: those of an older one, of full precision.
struct SnapshotBase {
  int64_t images = 0;  // where it was made
  TensorMap averages;  // "0.05/NAME", on the device of the weights
};

// Returns what a snapshot's file averages/average-000200.000.safetensors holds: the kept averages
// of the generator's parameters, "0.05/NAME" and "0.1/NAME", and what is no parameter (batch norm's
// statistics, mean of w) as it is now, "NAME". With a base, bfloat16 differences to its averages
// take their place, so that rounding is relative to how far the weights have moved and not to how
// large they are; without one they are the averages themselves. The metadata is a model file's,
// with "gantrain.averages". The step must keep averages.
ModelFile average_snapshot(const TrainingStep& step,
                           const Counters& counters,
                           const SnapshotBase* base,
                           const ClassTable& classes = {});

// The snapshots of a run, as ema.* of its configuration has them. Where the step keeps no averages,
// none is due.
class SnapshotWriter {
 public:
  SnapshotWriter(const TrainingStep& step, const Config& config);

  // Images between two snapshots: ema.snapshot_every, or a 64th of the run.
  int64_t cadence() const { return cadence_; }
  // Of a snapshot's tensors, and of the first one's, by which bfloat16 ones are told; 0 where there
  // are none.
  int64_t bytes() const;
  int64_t bytes_of_first() const;
  // Whether one is due between two counts of images seen; the last one at the end of the run.
  bool is_due(int64_t before, int64_t now) const;
  // As a run resumes, on rank 0: writes the one of now where it was due and a session was ended
  // before it was on the disk.
  void complete(const std::filesystem::path& run,
                const Counters& counters,
                const ClassTable& classes);
  // Writes the one of now in the background (CheckpointWriter::save), on rank 0. Of type bf16 it is
  // told by the oldest one of full precision in the folder, and is of full precision where there is
  // none. Throws UserError(kInput) where that one does not belong to the run.
  void write(const std::filesystem::path& run, const Counters& counters, const ClassTable& classes);
  // As CheckpointWriter's.
  void check() { writer_.check(); }
  void wait() { writer_.wait(); }

 private:
  const TrainingStep& step_;
  EmaOptions options_;
  int64_t images_;  // of the run
  int64_t cadence_;
  std::optional<SnapshotBase> base_;  // once one was written or found
  CheckpointWriter writer_;

  int64_t bytes_in(bool half) const;
  void find_base(const std::filesystem::path& run);
};

// A model whose weights are the average of a length up to a snapshot of a run.
struct AveragedModel {
  double length = 0;
  int64_t images = 0;  // seen in training, at that snapshot
  ModelFile model;     // of the weights' type in the run; float32 where they were kept in bfloat16
  double misfit = 0;   // Combination::misfit
  // What the rounding of snapshots in bfloat16 adds, as a share of how far the weights have moved
  // between the first and the last snapshot; an estimate by the size of what was rounded. 0 for
  // snapshots of full precision.
  double rounding = 0;
};

// Makes models of these lengths (above 0, at most kLongestAverage) of the snapshots in a run
// folder, or of those up to so many images seen. What is no parameter comes from the newest of
// them. Throws UserError(kInput) where there are fewer than two, or that names the file which does
// not belong to the others.
std::vector<AveragedModel> average_models(const std::filesystem::path& run,
                                          const std::vector<double>& lengths,
                                          std::optional<int64_t> until = {});

// How many images a run is to see, and has seen.
struct RunLength {
  int64_t images = 0;
  int64_t images_seen = 0;
};

// Compares what a run writes from now on, each time such a save, with what the folder's disk has
// free, as check_disk() of save/run_folder.h does, and says in one line what snapshots take.
void check_disk(const std::filesystem::path& folder,
                const CheckpointWriter::Save& save,
                const SnapshotWriter& snapshots,
                const SaveOptions& options,
                const RunLength& length,
                std::optional<int64_t> models_kept);

}  // namespace gantrain
