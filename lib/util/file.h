// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace gantrain {

// Whole content. Throws UserError(kInput) naming the file and the reason.
std::string read_file(const std::filesystem::path& path);

// A file that is either there whole or not there at all: bytes go to a temporary name beside it,
// commit() flushes to disk, renames and flushes the folder. Without commit() the destructor
// removes the temporary file. Throws UserError(kDisk) naming the file.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

// AtomicFile for content that is at hand.
void write_file(const std::filesystem::path& path, std::string_view content);

// Appends one line and its newline in one write(2), so that readers never see half a line.
void append_line(const std::filesystem::path& path, std::string_view line);

// Makes the folder and its parents. Throws UserError(kDisk) when it cannot be made or written.
void make_writable_folder(const std::filesystem::path& path);

// Bytes that an ordinary user can still write there; -1 if unknown.
int64_t free_bytes(const std::filesystem::path& folder);

// Folder of the running executable.
std::filesystem::path executable_folder();

}  // namespace gantrain
