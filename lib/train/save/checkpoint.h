// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/archive.h"
#include "core/safetensors.h"
#include "distributed/group.h"
#include "gan/class_table.h"

namespace gantrain {

class TrainingStep;

// Where training stands, beside the tensors. A resume needs no more: the order of the data and
// every random draw are functions of the seed and these counters.
struct Counters {
  int64_t images_seen = 0;
  int64_t iteration = 0;
  int64_t tick = 0;
  double seconds = 0;  // of training so far, over all sessions
  // The number of the stage that a growing network was last trained in, and its name for messages.
  int64_t stage = 0;
  std::string stage_name;
  // precision.cpu_choice of the run that saved the state; "" in states that are older than the key.
  std::string cpu_choice = "";
  // The micro-batch that was chosen by the memory of a device for the stage; 0: none was.
  int64_t micro_batch = 0;
  double metric_seconds = 0;       // of `seconds`, spent on metrics
  double last_metric_seconds = 0;  // of the last measurement
};

// Returns what a state file holds: tensors, which are not copied, counters, configuration, and the
// classes that conditional networks are trained on.
Archive state_archive(const NamedTensors& state,
                      const Counters& counters,
                      const Config& config,
                      const ClassTable& classes = {});
// Writes a state file. Throws UserError(kDisk), also where the disk has too little room for it,
// before anything is written.
void write_state(const std::filesystem::path& path, const Archive& state);
// The same in one.
void save_state(const std::filesystem::path& path,
                const NamedTensors& state,
                const Counters& counters,
                const Config& config,
                const ClassTable& classes = {});

// What a model file holds: the generator's average under its own names and, if asked for, the raw
// networks as "G.*" and "D.*". The classes of conditional networks become its metadata
// "gantrain.classes".
struct ModelFile {
  NamedTensors tensors;
  std::map<std::string, std::string> metadata;
};

// Returns it, with the raw networks if `raw`; the tensors are the networks' own.
ModelFile model_file(const TrainingStep& step,
                     const Counters& counters,
                     bool raw,
                     const ClassTable& classes = {});
// Writes a model file. Throws UserError(kDisk).
void write_model(const std::filesystem::path& path, const ModelFile& model);
// The same in one.
void save_model(const std::filesystem::path& path,
                const TrainingStep& step,
                const Counters& counters,
                bool raw,
                const ClassTable& classes = {});

// Loads, on rank 0, the newest state of a run folder whose checksum is right, or the named file,
// into `state` and `counters`. Returns its path, or "" if there is none. In a folder, broken files
// are skipped with a warning; a broken named file throws UserError(kInput). Where the configuration
// differs in keys that must not change, it throws UserError(kUsage) that lists them, unless `force`
// names them; likewise where the state was trained on other `classes`, unless `force` names "data".
std::filesystem::path load_newest(const std::filesystem::path& folder_or_file,
                                  const NamedTensors& state,
                                  Counters& counters,
                                  const Config& config,
                                  const std::string& force,
                                  const ClassTable& classes = {});

// Sends rank 0's tensors and counters to all ranks. Returns false on all ranks if rank 0 has
// `loaded` nothing.
bool share_state(Group& group, bool loaded, const NamedTensors& state, Counters& counters);

}  // namespace gantrain
