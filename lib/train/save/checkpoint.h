// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "config/config.h"
#include "core/archive.h"
#include "core/tensor_files.h"
#include "distributed/group.h"
#include "gan/class_table.h"
#include "gan/recipe.h"
#include "train/save/run_folder.h"

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
// "gantrain.classes", and a depth of 16 bits "gantrain.depth".
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

// Copies of tensors in host memory, which is used again by the next copies: it is page-locked for
// tensors of a GPU, and warm after the first time.
class HostCopies {
 public:
  // Begins to copy anew. Copies that were made before are overwritten.
  void begin();
  // Returns a contiguous copy in host memory, whose values are there once finish() has returned. A
  // tensor whose elements were copied since begin() is not copied twice.
  at::Tensor copy(const at::Tensor& tensor);
  // Waits for the devices that were copied from.
  void finish();

 private:
  using Elements = std::tuple<const void*, std::vector<int64_t>, std::vector<int64_t>, int>;

  std::vector<at::Tensor> memory_;
  size_t used_ = 0;  // of memory_, since begin()
  std::map<Elements, at::Tensor> copied_;
  std::vector<at::Device> devices_;
};

// Writes states and models in the background: the training waits for a copy into host memory, not
// for the disk. One save is written at a time. What was asked for is written, or said to have
// failed: it is never dropped.
class CheckpointWriter {
 public:
  // The files of one save; of an empty path none is written. The tensors may be the networks' own.
  struct Save {
    std::filesystem::path state_path, model_path;
    Archive state;
    ModelFile model;
  };

  // Calls writes(true) before something is written, and writes(false) when that has ended, well or
  // not, from the thread that writes.
  explicit CheckpointWriter(std::function<void(bool)> writes = [](bool) {})
      : writes_(std::move(writes)) {}
  ~CheckpointWriter();  // waits for the save that is being written; its failure is a warning

  // Makes the memory for copies of what `save` holds, so that the first save is as short as the
  // others.
  void reserve(const Save& save);
  // Waits until the save before this one is written, copies the tensors and returns; the files are
  // written in the background: the state, then the model, then `afterwards` is called there. Other
  // threads go before the one that writes. Throws what the save before has thrown.
  void save(Save save, std::function<void()> afterwards);
  // Throws the UserError(kDisk) of a save that has failed, once; returns at once.
  void check();
  // Waits until what was asked for is written. Throws as check() does.
  void wait();

 private:
  void copy(Save& save);

  std::function<void(bool)> writes_;
  HostCopies copies_;
  std::future<void> pending_;
};

// The bytes of the tensors of a save's files.
SaveBytes bytes_of(const CheckpointWriter::Save& save);

// Writes the model of a save whose state is there: a session was killed between the two files.
void complete_save(const CheckpointWriter::Save& save);

// Which tensors of a fresh run came from a model file. Names are "G_ema.NAME", "G.NAME", "D.NAME".
struct InitTable {
  struct Row {
    std::string name;
    std::string reason;  // "[64, 3] in the file, [32, 3] here"
  };
  std::filesystem::path file;
  std::vector<std::string> loaded;  // with " from NAME" where the file has another name
  std::vector<Row> reinitialised;   // missing in the file or of another shape, so unchanged
  std::vector<Row> skipped;         // only in the file, by the file's names
  std::vector<std::string>
      afresh;  // networks that the file has not: "D"; no rows for their tensors
  std::vector<std::string> values_that_fit;  // Recipe::values_that_fit
};

// Starts a run from other weights (transfer learning): copies every tensor of a model file, of a
// state (.pt), or of a run folder's newest model for which there is a tensor of the same shape here
// with the same name, or the name that Recipe::names_in gives; what follows from a network's size
// stays and is not counted. Where a run's model holds the
// average alone, its newest state that can be read serves instead, which has all networks. The
// file's average goes into `ema`. The first player, the generator, gets the file's raw "G.*", or
// else the same tensors as `ema`; another player gets its own, "D.*". A file of another recipe is
// warned of, as far as its tensors fit. Throws UserError(kInput) that names the file, and its
// recipe where that is known, where it cannot be read or no parameter fits.
InitTable init_from(const std::filesystem::path& file_or_run,
                    Recipe& recipe,
                    const torch::nn::Module& ema);

// Throws UserError(kUsage) unless all layers of a fresh run that stay as they are came with
// weights, with the number that could stay. `table` is null where the run begins with drawn weights
// alone.
void check_freezing(const Freezing& freezing, const InitTable* table);

// Logs the counts, the first rows of what was not loaded, and the values that fit; the log file
// gets all rows.
void log_table(const InitTable& table);

}  // namespace gantrain
