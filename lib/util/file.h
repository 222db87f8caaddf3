// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace gantrain {

namespace fs = std::filesystem;

// Returns the whole content of a file. Throws UserError(kInput) that names the file and the reason.
std::string read_file(const std::filesystem::path& path);

// Opens a file in a folder that somebody else may have prepared, and returns the descriptor, which
// closes when another program is executed. A link is not followed (of the path's last component
// alone), a named pipe is not waited for, and what is no regular file is refused. `flags` are those
// of open(2); with O_CREAT the permissions are 0644. Throws UserError(kDisk) that names the file.
int open_regular(const std::filesystem::path& path, int flags);

// How many bytes of a file of a run folder are read, by its kind: short texts (STATUS,
// command.txt), JSON (config.json, errors/*.json), pictures; of lines (stats.jsonl, log.txt) those
// in the last so many bytes.
inline constexpr int64_t kMostOfText = 64 << 10;
inline constexpr int64_t kMostOfJson = 16 << 20;
inline constexpr int64_t kMostOfPicture = 64 << 20;
inline constexpr int64_t kMostOfLines = 64 << 20;

// Returns the whole content of a file in a folder that may be a stranger's, such as a run's. Throws
// UserError(kInput) where open_regular() would refuse it, or it holds more than `at_most` bytes.
std::string read_regular_file(const std::filesystem::path& path, int64_t at_most);

// The same, but nothing where the file is missing or refused.
std::optional<std::string> content_of(const std::filesystem::path& path, int64_t at_most);

// Calls `use` with each line that begins in the last `at_most` bytes of such a file, without its
// newline; never where the file is missing or refused. Lines of more than 1 MiB are left out.
void each_line(const std::filesystem::path& path,
               int64_t at_most,
               const std::function<void(const std::string&)>& use);

// Returns a name beside the path that nobody can guess: "state.pt" -> "state.pt.tmp1f0c9a7730be".
std::filesystem::path temporary_name(const std::filesystem::path& path);

// Returns whether a file has such a name, or one of earlier versions: "state.pt.tmp4711".
bool is_temporary_name(const std::string& name);

// Whether a path that the user names is a device, such as /dev/stdout, that no file may replace.
bool is_written_in_place(const std::filesystem::path& path);

// Writes a file that is either there whole or not there at all. Bytes go to a new file beside it,
// temporary_name(); commit() flushes this to disk, renames it and flushes the folder. Without
// commit() the destructor removes the temporary file. Where is_written_in_place(), bytes go
// at once. Throws UserError(kDisk) that names the file.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path, unsigned permissions = 0644);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty: bytes go to the path at once
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

// The same, for what only this user may write to, whatever the umask is.
void make_private_folder(const std::filesystem::path& path);

// Says who else may write to the folder or to what lies in it: "PATH: other users may write to it",
// "PATH: belongs to another user"; "" if only this user and root may, or if there is no folder.
std::string shared_with_others(const std::filesystem::path& folder);

// Returns whether the path is the folder or lies below it once links are followed. Neither need
// exist.
bool lies_in(const std::filesystem::path& path, const std::filesystem::path& folder);

// Returns how many bytes an ordinary user can still write there; -1 if this is unknown.
int64_t free_bytes(const std::filesystem::path& folder);

// Returns the folder of the running executable.
std::filesystem::path executable_folder();

// Returns the folder in which results of that kind are kept between commands, which may not exist
// yet: $GANTRAIN_CACHE_DIR/KIND, else $XDG_CACHE_HOME/gantrain/KIND, else
// ~/.cache/gantrain/KIND. "" where there is no home folder, and, with a warning, where others may
// write to it or to the folder above it: what lies there may be theirs.
std::filesystem::path cache_folder(const std::string& kind);

// Returns the path where the shell would find the program by PATH, or an empty path.
std::filesystem::path find_program(const std::string& name);

}  // namespace gantrain
