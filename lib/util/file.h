// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace gantrain {

// Returns the whole content of a file. Throws UserError(kInput) that names the file and the reason.
std::string read_file(const std::filesystem::path& path);

// Writes a file that is either there whole or not there at all. Bytes go to a temporary file beside
// it; commit() flushes this to disk, renames it and flushes the folder. Without commit() the
// destructor removes the temporary file. Throws UserError(kDisk) that names the file.
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

// Writes the content with an AtomicFile.
void write_file(const std::filesystem::path& path, std::string_view content);

// Writes all bytes to a descriptor. Returns false, with errno, where that fails.
bool write_whole(int descriptor, std::string_view bytes);

// Makes sure that a crash of the machine leaves the path's name as it is now.
void flush_folder_of(const std::filesystem::path& path);

// Appends a line and its newline in one write(2), so that readers never see half a line.
void append_line(const std::filesystem::path& path, std::string_view line);

// Makes the folder and its parents. Throws UserError(kDisk) where it cannot be made or written to.
void make_writable_folder(const std::filesystem::path& path);

// Returns how many bytes an ordinary user can still write there; -1 if this is unknown.
int64_t free_bytes(const std::filesystem::path& folder);

// Returns the folder of the running executable.
std::filesystem::path executable_folder();

// Returns the folder in which results of that kind are kept between commands, which may not exist
// yet: $GANTRAIN_CACHE_DIR/KIND, else $XDG_CACHE_HOME/gantrain/KIND, else
// ~/.cache/gantrain/KIND; "" where there is no home folder.
std::filesystem::path cache_folder(const std::string& kind);

// Returns the path where the shell would find the program by PATH, or an empty path.
std::filesystem::path find_program(const std::string& name);

}  // namespace gantrain
