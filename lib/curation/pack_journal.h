// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "config/value.h"

namespace gantrain {

// What became of one picture of the source.
struct PackedPicture {
  int64_t label = -1;  // -1: the source has no labels
  int64_t bytes = 0;   // of its PNG
  uint32_t checksum = 0;
  std::string bad = "";  // why it was left out; "": it was not
};

// The file beside an unfinished data set that says how far it has come, so that the same command
// goes on there. It holds a lock: a second command for the same output is refused.
class PackJournal {
 public:
  // Opens or makes the file. `job` describes source and options; where the file is of another job
  // or cannot be understood, it begins anew. What it has of the same job is never written again, so
  // that nothing is lost where the process is killed meanwhile. Throws UserError(kDisk) where the
  // file cannot be written, UserError(kUsage) where another process is at work.
  PackJournal(std::filesystem::path path, const Json& job);
  ~PackJournal();
  PackJournal(const PackJournal&) = delete;
  PackJournal& operator=(const PackJournal&) = delete;

  const std::vector<PackedPicture>& pictures() const { return pictures_; }  // in the source's order
  bool was_of_another_job() const { return was_of_another_job_; }

  // Forgets all pictures from the `kept`-th on.
  void keep_first(size_t kept);
  // Adds the next picture. It is written about once a second, when its PNG has been.
  void add(PackedPicture picture);
  void flush();
  // Removes the file, when the output is whole.
  void remove();

 private:
  void cut(size_t bytes);
  void append(const std::string& text);

  std::filesystem::path path_;
  Json job_;
  int descriptor_ = -1;
  std::vector<PackedPicture> pictures_;
  std::vector<size_t> ends_;  // bytes of the header and the first 0, 1, ... pictures
  bool was_of_another_job_ = false;
  std::string unwritten_;
  double written_at_ = 0;  // monotonic seconds
};

}  // namespace gantrain
