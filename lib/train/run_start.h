// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "train/callbacks.h"
#include "train/checkpoint.h"
#include "train/cpu_precision.h"
#include "train/init_from.h"
#include "train/training_data.h"

namespace gantrain {

// How a run comes to its weights and to its folder, before the first iteration. All ranks make the
// same calls; files are read and written by rank 0.

// What a run begins with.
struct RunStart {
  Counters counters;
  bool resumed = false;
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

// Chooses and makes the run's folder and tells all ranks its path. From now on logs are written
// there.
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

}  // namespace gantrain
