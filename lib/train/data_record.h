// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <thread>

#include "data/manifest.h"
#include "train/callbacks.h"
#include "train/options.h"

namespace gantrain {

// On rank 0, for a run that resumes from a state in `folder` ("" for a fresh run): compares the
// data with the manifest that lies there, if there is one. Names and labels are always compared,
// contents where the file system tells of a change since. Returns the manifest of the data that is
// there now, with the contents that were compared; without rows where nothing was. Throws
// UserError(kUsage) that says what has changed, unless run.force names "data" or "all"; then it
// warns. Throws UserError(kStopped) where a stop is asked for meanwhile.
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
  DataRecord(const DataRecord&) = delete;
  DataRecord& operator=(const DataRecord&) = delete;

 private:
  void work();

  std::filesystem::path folder_;
  std::shared_ptr<const Dataset> dataset_;
  Manifest manifest_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace gantrain
