// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/value.h"
#include "train/options.h"

namespace gantrain {

// Makes OUT/00007-NAME with the first free number, also while other jobs do the same, and points
// OUT/latest at it. Throws UserError(kDisk) where that fails.
std::filesystem::path make_numbered_folder(const std::filesystem::path& out,
                                           const std::string& name);

// Writes the line of the file STATUS: "running", "done 200 kimg", "stopped 12.3 kimg (signal 15),
// resumable", "failed with exit code 6; ...".
void write_status(const std::filesystem::path& folder, const std::string& line);
std::string read_status(const std::filesystem::path& folder);  // "" if there is none

// The best model of a run by save.keep_best.
inline constexpr const char* kBestModel = "model-best.safetensors";

// Find the state or the model files of a run, newest first, by the images seen that their names
// tell. kStrict throws UserError(kInput) where the folder is there and cannot be listed: it must
// not pass for a run that has not begun.
struct NumberedFile {
  std::filesystem::path path;
  int64_t images = 0;
};
enum class Listing { kLenient, kStrict };
std::vector<NumberedFile> find_states(const std::filesystem::path& folder,
                                      Listing listing = Listing::kLenient);
std::vector<NumberedFile> find_models(const std::filesystem::path& folder);

// Likewise the snapshots of averages in its folder averages (train/average/snapshots.h).
std::vector<NumberedFile> find_averages(const std::filesystem::path& folder);

// Returns a model file: `file_or_run` itself, or the newest model of that run folder. Throws
// UserError(kInput) if there is none.
std::filesystem::path find_model(const std::filesystem::path& file_or_run);

// Returns the images seen in training that a model file's name tells; -1 where it tells none.
int64_t images_of_model(const std::filesystem::path& file);

// Throws UserError(kInput) unless `where` is a file that may be a state, or a folder: what --resume
// takes. What holds weights alone, and names that are no path here, are told of --init-from.
void check_resumable(const std::filesystem::path& where);

// Removes state files that neither keep_last (files) nor keep_every (images; 0: none) protects. The
// newest one of at most `best_images` images stays, too: it leads back to the best model.
void prune_states(const std::filesystem::path& folder,
                  int64_t keep_last,
                  int64_t keep_every,
                  int64_t best_images = -1);
// Likewise removes models; model-best.safetensors stays.
void prune_models(const std::filesystem::path& folder, int64_t keep_last, int64_t keep_every);

// Renames those of the files that are there to superseded-NAME, or all of them to superseded-2-NAME
// and so on where one of these names is taken. Throws UserError(kDisk).
void rename_aside(const std::vector<std::filesystem::path>& files);

// Renames states, models and snapshots with more than `images` images seen, which belong to a
// history that the run leaves behind, so that neither resume nor generate takes them:
// superseded-state-000200.pt. Returns how many.
int64_t set_aside(const std::filesystem::path& folder, int64_t images);

// Whether the user has made the file `name` ("SAVE", "STOP") in the folder. The file is removed, so
// that each request counts once.
bool take_request(const std::filesystem::path& folder, const std::string& name);

// Whether a run goes on at the newest state of its own folder: with --resume auto, and where
// --resume names another run at whose state this one has begun before.
bool goes_on_by_itself(const RunOptions& options);
// Returns the folder of the run whose state this one begins at; "" for none.
std::filesystem::path resumed_run(const RunOptions& options);

// Returns the command that resumes the run in `folder`, made from the command that started it.
std::string resume_command(const std::string& command, const std::string& folder);
// Returns the command that draws a first grid with a model file or with the newest model of a run;
// `more` holds further flags.
std::string generate_command(const std::string& model, const std::string& more = "");

// Describes gantrain's version, the host, its processors, device, ranks and batch system, for
// env.json.
Json describe_environment(const std::string& device, int64_t world);

// The bytes of the files of one save.
struct SaveBytes {
  int64_t state = 0;
  int64_t model = 0;
  int64_t snapshot = 0;  // of averages, which has a cadence of its own; 0: there are none
  int64_t first_snapshot = 0;
};

// What a run will write until its end, in bytes; sample grids and logs are small beside it.
struct DiskNeed {
  SaveBytes each;
  int64_t states = 0;  // that are there at a time, the one that is being written included
  int64_t models = 0;
  // That are left at the end.
  int64_t states_left = 0;
  int64_t models_left = 0;
  int64_t snapshots = 0;  // of averages, all of which stay
  int64_t bytes() const { return states * each.state + models * each.model + of_snapshots(); }
  int64_t bytes_left() const {
    return states_left * each.state + models_left * each.model + of_snapshots();
  }
  int64_t of_snapshots() const {
    return snapshots == 0 ? 0 : (snapshots - 1) * each.snapshot + each.first_snapshot;
  }
};

// Foretells what a run of that length writes from `images_seen` on. `models_kept` is as in
// train/options.h; `snapshot_every`: images between two snapshots of averages.
DiskNeed disk_need(const SaveBytes& each,
                   const SaveOptions& save,
                   int64_t images,
                   int64_t images_seen,
                   std::optional<int64_t> models_kept = {},
                   int64_t snapshot_every = 0);

// Says in one line what the need is made of, and what is left at the end.
std::string to_text(const DiskNeed& need);

// Compares the need with what the disk of the folder has free. Throws UserError(kDisk) where not
// even one save fits, and warns where the whole run does not.
void check_disk(const std::filesystem::path& folder, const DiskNeed& need);

// Locks a run folder until the returned descriptor is closed. Where the process that holds the lock
// is being killed, or is gone and left it to what is left of its run, it waits for their end for up
// to a minute: a thread that writes to a slow disk ends only then. Where no process of this machine
// holds it, another machine does, or did until it was gone: it waits for two minutes, which is
// longer than a file server keeps such a lock. Throws UserError(kUsage) where another run is at
// work there, UserError(kDisk) where the folder or its file .lock cannot be written. On file
// systems without locks it warns and returns a descriptor that locks nothing. `table` is the
// kernel's list of locks, which a test may replace.
int lock_run_folder(const std::filesystem::path& folder,
                    const std::filesystem::path& table = "/proc/locks");

// Holds that lock until it is destroyed.
class FolderLock {
 public:
  FolderLock() = default;
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // Does nothing where it holds one already.
  void take(const std::filesystem::path& folder);

 private:
  int descriptor_ = -1;
};

// Returns the JSON header of a model file (.safetensors), null where it has none, and of such a
// header what it says of the model, "gantrain.model"; null where it says nothing.
Json header_of_model(const std::filesystem::path& file);
Json model_in_header(const Json& header);

}  // namespace gantrain
