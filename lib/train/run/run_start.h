// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "data/pictures/dataset.h"
#include "data/pictures/manifest.h"
#include "distributed/group.h"
#include "train/cpu_precision/cpu_precision.h"
#include "train/options.h"
#include "train/run/trainer.h"
#include "train/run/training_data.h"
#include "train/save/checkpoint.h"

namespace gantrain {

// How a run comes to its weights and to its folder, before the first iteration. All ranks make the
// same calls; files are read and written by rank 0.

// What a run begins with.
struct RunStart {
  Counters counters;
  bool resumed = false;
  bool went_on = false;                // from the memory of ranks of an elastic run
  std::filesystem::path resumed_from;  // the state file, on rank 0
  std::optional<InitTable> init;       // of a fresh run with --init-from, on rank 0
  std::filesystem::path folder;        // of the run's files, the same on all ranks
  CpuPrecision precision;
  Json more = Json::object();  // of config.json, beside the configuration: {"detector": ...}
};

// Puts the newest state, or the weights of --init-from, or rank 0's fresh ones into the step of
// every rank. `classes` are those that the networks are trained on. Throws UserError(kInput) where
// a state cannot be read or does not fit the schedule, UserError(kUsage) where the configuration
// differs from the state's.
RunStart load_or_begin(const TrainSetup& setup,
                       const RunOptions& options,
                       TrainingStep& step,
                       Group& group,
                       const ClassTable& classes = {});

// Chooses and makes the run's folder, unless `start` names one, and tells all ranks its path. From
// now on logs are written there.
void open_run_folder(const TrainSetup& setup,
                     const RunOptions& options,
                     Group& group,
                     RunStart& start);

// Decides what a run with --amp on a CPU computes in, and tells the step; the run enters its stage
// afterwards. Returns the configuration with the decision.
Config decide_precision(const TrainSetup& setup,
                        const TrainOptions& train,
                        TrainingStep& step,
                        Group& group,
                        RunStart& start);

// Writes config.json, command.txt, env.json, STATUS and the first lines of the log, on rank 0.
void write_start(const TrainSetup& setup,
                 const Config& config,
                 const RunStart& start,
                 const TrainingStep& step,
                 const TrainingData& data);

// Warns where a group of samples that normalise each other does not lie in one micro-batch: ranks
// and accumulation then change the result.
void warn_of_split_groups(const TrainingStep& step);

// Compares this rank's configuration and data with rank 0's before anything is trained. Throws
// UserError(kEnvironment) on every rank where they differ, with the key, both values and the node.
// Keys that say only where and how a rank works (threads, loading, folders, the paths of the data
// and of its labels) may differ; the data behind these paths may not. All ranks call it together.
void check_same_start(const TrainSetup& setup, const Dataset& dataset, Group& group);
// The first of these differences that this rank has, in words; "" if there is none. `ranks` are the
// group's; those with local rank 0 compare the content of the data, too. All ranks call it
// together.
std::string difference_from_rank_0(const TrainSetup& setup,
                                   const Dataset& dataset,
                                   Group& group,
                                   const RankInfo& ranks);

// What killed sessions leave in a run folder, and what becomes of it when the next one begins. Both
// want the folder's lock to be held.

// Removes the temporary files of writers that were killed (util/file.h, AtomicFile) from the
// folder, its samples, averages and errors, and these three where they are links. `others_write`:
// not those that launchers, other ranks and commands may be writing now. Returns how many files.
int64_t remove_temporary_files(const std::filesystem::path& folder, bool others_write = false);

// Moves the rows of stats.jsonl and metric-*.jsonl that tell of more than `images` images seen to
// the files superseded-stats.jsonl and so on, and with them a last line that is no whole row: they
// belong to a history that the run leaves behind and trains anew. Returns how many. Throws
// UserError(kDisk).
int64_t set_rows_aside(const std::filesystem::path& folder, int64_t images);

// The manifest that lies in the folder; one without pictures if there is none.
Manifest kept_manifest(const std::filesystem::path& folder, const TrainSetup& setup);

// On rank 0, for a run that resumes from a state in `folder` ("" for a fresh run): compares the
// data with the manifest that lies there, if there is one. Names and labels are always compared,
// contents where the file system tells of a change since. Returns the manifest of the data that is
// there now, with the contents that were compared; without pictures where nothing was, or where
// hashes are to become a list. Throws UserError(kUsage) that says what has changed, unless
// run.force names "data" or "all"; then it warns. Throws UserError(kStopped) where a stop is asked
// for meanwhile.
Manifest compare_data(const std::filesystem::path& folder,
                      const Dataset& dataset,
                      const TrainSetup& setup,
                      const RunOptions& options);

// Keeps the manifest of a run's data in its folder: first the names and labels, then the contents.
// A thread reads and writes while the run trains.
class DataRecord {
 public:
  // `manifest` is of this data, as compare_data() returned it.
  DataRecord(std::filesystem::path folder,
             std::shared_ptr<const Dataset> dataset,
             Manifest manifest);
  // Ends the thread within about a second, and keeps what it has read so far.
  ~DataRecord();

 private:
  void work();

  std::filesystem::path folder_;
  std::shared_ptr<const Dataset> dataset_;
  Manifest manifest_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace gantrain
