// SPDX-License-Identifier: Apache-2.0
#include "util/file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <system_error>
#include <vector>

#include "util/error.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

// Says how large a file may become, where this is why a write has failed.
std::string limit_text(bool too_large) {
  struct rlimit limit {};
  if (!too_large || ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return "";
  return fmt::format("; a file size limit of {} bytes is set; raise it (ulimit -f)",
                     static_cast<uint64_t>(limit.rlim_cur));
}

void write_checked(int descriptor, std::string_view bytes, const fs::path& path) {
  if (write_whole(descriptor, bytes)) return;
  const bool too_large = errno == EFBIG;
  fail(Exit::kDisk, "{}: cannot write: {}{}", path.string(), errno_text(), limit_text(too_large));
}

}  // namespace

bool write_whole(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(descriptor, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(done));
  }
  return true;
}

void flush_folder_of(const fs::path& path) {
  const fs::path folder = path.parent_path();
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

std::string read_file(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    fail(Exit::kInput, "{}: is a folder, not a file", path.string());
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(Exit::kInput, "{}: cannot be opened: {}", path.string(), errno_text());
  std::string content;
  const std::uintmax_t bytes = fs::is_regular_file(path, error) ? fs::file_size(path, error) : 0;
  if (!error) content.reserve(bytes);
  std::vector<char> chunk(size_t{1} << 18);
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || in.gcount() > 0)
    content.append(chunk.data(), static_cast<size_t>(in.gcount()));
  if (in.bad()) fail(Exit::kInput, "{}: cannot be read: {}", path.string(), errno_text());
  return content;
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  temporary_ = path_.string() + fmt::format(".tmp{}", ::getpid());
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail(Exit::kDisk, "{}: cannot be made: {}", path_.string(), errno_text());
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, size_t bytes) {
  write_checked(descriptor_, {static_cast<const char*>(data), bytes}, path_);
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) {
    fail(Exit::kDisk, "{}: cannot be flushed to disk: {}", path_.string(), errno_text());
  }
  ::close(descriptor_);
  descriptor_ = -1;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const std::string reason = errno_text();
    ::unlink(temporary_.c_str());
    fail(Exit::kDisk, "{}: cannot be put in place: {}", path_.string(), reason);
  }
  flush_folder_of(path_);
}

void write_file(const fs::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

void append_line(const fs::path& path, std::string_view line) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) fail(Exit::kDisk, "{}: cannot be opened: {}", path.string(), errno_text());
  const std::string whole = std::string(line) + "\n";
  try {
    write_checked(descriptor, whole, path);
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  ::close(descriptor);
}

void make_writable_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  const char* way_out = "give a folder that can be written";
  if (error)
    fail(Exit::kDisk, "{}: cannot be made: {}; {}", path.string(), error.message(), way_out);
  if (!fs::is_directory(path, error))
    fail(Exit::kDisk, "{}: is a file, not a folder; {}", path.string(), way_out);
  if (::access(path.c_str(), W_OK | X_OK) != 0) {
    fail(Exit::kDisk, "{}: cannot be written: {}; {}", path.string(), errno_text(), way_out);
  }
}

int64_t free_bytes(const fs::path& folder) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) return -1;
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

fs::path executable_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

fs::path cache_folder(const std::string& kind) {
  const fs::path own = environment_variable("GANTRAIN_CACHE_DIR");
  if (!own.empty()) return own / kind;
  const fs::path xdg = environment_variable("XDG_CACHE_HOME");
  if (!xdg.empty()) return xdg / "gantrain" / kind;
  const fs::path home = environment_variable("HOME");
  return home.empty() ? "" : home / ".cache" / "gantrain" / kind;
}

fs::path find_program(const std::string& name) {
  std::error_code error;
  for (const std::string& folder : split(environment_variable("PATH"), ':')) {
    const fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
    if (fs::is_regular_file(candidate, error) && ::access(candidate.c_str(), X_OK) == 0)
      return candidate;
  }
  return {};
}

}  // namespace gantrain
