// SPDX-License-Identifier: Apache-2.0
#include "train/data_record.h"

#include <algorithm>
#include <utility>

#include "data/worker.h"
#include "train/forced.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

// A broken manifest must not keep a run from going on.
std::optional<Manifest> read_or_warn(const fs::path& folder) {
  try {
    return read_manifest(folder);
  } catch (const UserError& e) {
    warn("{}; whether the data has changed is not known", e.what());
    return std::nullopt;
  }
}

bool is_complete(const Manifest& manifest) {
  return std::all_of(manifest.rows.begin(), manifest.rows.end(), [](const ManifestRow& row) {
    return !row.mark.hash.empty();
  });
}

void mark_or_stop(const Dataset& dataset,
                  const TrainSetup& setup,
                  const Manifest& before,
                  Manifest& now) {
  bool stopped = false;
  const auto stop = [&] {
    setup.callbacks.phase("comparing data");
    return stopped = setup.callbacks.stop_signal() != 0;
  };
  const int64_t unreadable = mark_pictures(
      dataset,
      {.threads = threads_for_marks(), .known = &before, .lenient = true, .stop = stop},
      now);
  if (stopped) fail(Exit::kStopped, "stopped while the data was compared with the run's");
  if (unreadable > 0)
    warn("{}: {} of its pictures cannot be read now; whether they have changed is not known",
         now.path,
         unreadable);
}

}  // namespace

Manifest compare_data(const fs::path& folder,
                      const Dataset& dataset,
                      const TrainSetup& setup,
                      const RunOptions& options) {
  const std::string path = setup.config.read<DataOptions>("data.").path;
  const std::optional<Manifest> before = folder.empty() ? std::nullopt : read_or_warn(folder);
  if (!before) return {.path = path, .rows = {}};
  Manifest now = list_pictures(dataset, path);
  mark_or_stop(dataset, setup, *before, now);
  const std::string changed = changes(*before, now);
  if (changed.empty()) return now;
  if (!is_forced(options.force, "data")) {
    fail(Exit::kUsage,
         "{}: the data is not what this run was trained on: {}; bring the old data back, or "
         "--force data to go on with what is there now",
         path,
         changed);
  }
  warn("{}: the data has changed, and is taken as it is now (--force): {}", path, changed);
  return now;
}

DataRecord::DataRecord(fs::path folder, std::shared_ptr<const Dataset> dataset, Manifest manifest)
    : folder_(std::move(folder)), dataset_(std::move(dataset)), manifest_(std::move(manifest)) {
  thread_ = start_worker([this] { work(); });
}

DataRecord::~DataRecord() {
  ended_ = true;
  thread_.join();
}

// One thread reads, so that the threads that load pictures have the disk.
void DataRecord::work() {
  try {
    if (manifest_.rows.empty()) manifest_ = list_pictures(*dataset_, manifest_.path);
    write_manifest(folder_, manifest_);
    if (is_complete(manifest_)) return;
    const int64_t unreadable =
        mark_pictures(*dataset_,
                      {.threads = 1, .lenient = true, .stop = [this] { return ended_.load(); }},
                      manifest_);
    write_manifest(folder_, manifest_);
    if (unreadable > 0)
      warn("{}: {} of its pictures cannot be read; a resume will not notice their changes",
           manifest_.path,
           unreadable);
  } catch (const std::exception& e) {
    warn("{}; a resume will not notice all changes of the data", e.what());
  }
}

}  // namespace gantrain
