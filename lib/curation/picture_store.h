// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/value.h"
#include "data/pictures/dataset.h"

namespace gantrain {

// Parts of a zip archive whose entries are stored, not compressed (PKWARE's APPNOTE 6.3). Zip64 is
// used where a number needs it. All times are 1980-01-01, so that the same entries are the same
// bytes.

// An entry as the archive's directory describes it.
struct StoredEntry {
  std::string name;       // with '/', ASCII or UTF-8
  uint64_t size = 0;      // bytes
  uint32_t checksum = 0;  // CRC-32
  uint64_t header = 0;    // where its local header begins
};

// Returns the CRC-32 of a content.
uint32_t checksum_of(std::string_view content);

// Returns what stands before an entry's content. Throws std::invalid_argument for a content of 4
// GiB or more.
std::string local_header(const StoredEntry& entry);

// Returns what stands behind the last content, which ends at `offset`.
std::string central_directory(const std::vector<StoredEntry>& entries, uint64_t offset);

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

// A data set that is being written, in StyleGAN2-ADA's layout. It has another name, NAME.partial,
// until it is whole; then it replaces what had its name before. Every member throws
// UserError(kDisk) that names the file.
class PictureStore {
 public:
  virtual ~PictureStore() = default;

  // Goes on behind the first of these entries, as many as lie there whole. Removes what lies behind
  // them. Returns how many they are; nothing where `stop`, asked before each entry, returns true:
  // then all is left as it was.
  virtual std::optional<size_t> go_on(std::vector<StoredEntry> entries, const StopCheck& stop) = 0;
  // Adds a file behind the others; the entry has its name and checksum.
  virtual void add(StoredEntry entry, std::string_view content) = 0;
  // Flushes everything to disk and gives it its final name.
  virtual void finish() = 0;
  // Removes the unfinished data set.
  virtual void discard() = 0;
};

// A zip archive of stored files.
std::unique_ptr<PictureStore> make_zip_store(const std::filesystem::path& path);

// A folder.
std::unique_ptr<PictureStore> make_folder_store(const std::filesystem::path& path);

// The name of an unfinished data set.
std::filesystem::path partial_path(const std::filesystem::path& path);

// The name of the journal beside it.
std::filesystem::path journal_path(const std::filesystem::path& path);

// The name that a folder has for the moment in which another one takes its place.
std::filesystem::path replaced_path(const std::filesystem::path& path);

}  // namespace gantrain
