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
#include "curation/requests.h"
#include "data/containers/formats.h"
#include "data/pictures/dataset.h"

namespace gantrain {

struct PackResult {
  int64_t pictures = 0;          // in the output
  std::vector<std::string> bad;  // why each of the others was left out, with its name
  int64_t resumed = 0;           // pictures, good or bad, that an earlier command had seen to
  int64_t bytes = 0;             // of all PNGs
  int64_t channels = 0;
  int64_t depth = 8;  // bits of a value
  int64_t classes = 0;
  int64_t numbers = 0;   // of labels that are vectors
  bool stopped = false;  // before the end: there is no output, and the same command goes on
};

// Writes the pictures of a data set as StyleGAN2-ADA's dataset_tool lays them out: PNGs of one size
// and one number of channels, of 8 or 16 bits, 00000/img00000000.png and so on (stacks: .npy) in
// the order of their names, and last dataset.json with {"labels": [["00000/img00000000.png", 0],
// ...]}, or null without labels. Its key "classes" has the names of the classes; labels that are
// vectors are lists of numbers, null where the source has none, and "attributes" has their names.
// So are classes of which the last has no picture.
PackResult pack_pictures(const PackRequest& request, const WorkCallbacks& callbacks);

// The file that lists what was left out: NAME.bad.txt.
std::string bad_list_of(const PackRequest& request);

// Parts of a zip archive of stored entries (PKWARE's APPNOTE 6.3), with Zip64 where a number needs
// it. All times are 1980-01-01, so that the same entries are the same bytes.

// Returns the CRC-32 of a content.
uint32_t checksum_of(std::string_view content);

// Returns what stands before a content. Throws std::invalid_argument for 4 GiB or more.
std::string local_header(const ZipEntry& entry);

// Returns what stands behind the last content, which ends at `offset`.
std::string central_directory(const std::vector<ZipEntry>& entries, int64_t offset);

// What became of one picture of the source.
struct PackedPicture {
  int64_t label = -1;  // its class, or its number in the source; -1: that has no labels
  int64_t bytes = 0;   // of its PNG
  uint32_t checksum = 0;
  std::string bad = "";  // why it was left out; "": it was not
};

// The file beside an unfinished data set that says how far it has come. It holds a lock: a second
// command for the same output is refused.
class PackJournal {
 public:
  // Opens or makes the file. Where it is of another `job` (source and options) or cannot be
  // understood, it begins anew. What it has of the same job is never written again. Throws
  // UserError(kDisk) where it cannot be written, UserError(kUsage) where another process is at
  // work.
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

// A data set that is being written as NAME.partial; at the end it replaces what had its name
// before. Every member throws UserError(kDisk) that names the file.
class PictureStore {
 public:
  virtual ~PictureStore() = default;

  // Goes on behind the first of these entries, as many as lie there whole. Removes what lies
  // behind. Returns how many they are; nothing where `stop` returns true: all is left as it was.
  virtual std::optional<size_t> go_on(std::vector<ZipEntry> entries, const StopCheck& stop) = 0;
  // Adds a file behind the others; the entry has its name and checksum.
  virtual void add(ZipEntry entry, std::string_view content) = 0;
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
