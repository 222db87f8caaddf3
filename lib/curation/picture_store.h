// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "curation/zip_writer.h"
#include "data/dataset.h"

namespace gantrain {

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

// The name of the journal beside it (curation/pack_journal.h).
std::filesystem::path journal_path(const std::filesystem::path& path);

// The name that a folder has for the moment in which another one takes its place.
std::filesystem::path replaced_path(const std::filesystem::path& path);

}  // namespace gantrain
