// SPDX-License-Identifier: Apache-2.0
#include "util/file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <vector>

#include "util/error.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

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

constexpr std::string_view kTemporary = ".tmp";
constexpr size_t kRandomBytes = 6;  // of a temporary name

// A descriptor of a file that is written in place; -1 for others. Those that are open already keep
// their place in the file: they are not opened once more.
int open_in_place(const fs::path& path) {
  if (!is_written_in_place(path)) return -1;
  if (path == "/dev/stdout") return ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (path == "/dev/stderr") return ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  if (path.parent_path() == "/dev/fd") {
    const auto number = parse_int(path.filename().string());
    return number ? ::fcntl(static_cast<int>(*number), F_DUPFD_CLOEXEC, 3) : -1;
  }
  return ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
}

}  // namespace

bool is_written_in_place(const fs::path& path) {
  const fs::path folder = path.parent_path();
  if (path == "/dev/stdout" || path == "/dev/stderr" || folder == "/dev/fd") return true;
  struct stat file {};
  return folder == "/dev" && ::stat(path.c_str(), &file) == 0 && S_ISCHR(file.st_mode);
}

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
  // A sparse file may state any size.
  const auto memory = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  if (!error && bytes > memory)
    fail(Exit::kInput, "{}: holds {} bytes, more than the memory has", path.string(), bytes);
  if (!error) content.reserve(bytes);
  std::vector<char> chunk(size_t{1} << 18);
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || in.gcount() > 0)
    content.append(chunk.data(), static_cast<size_t>(in.gcount()));
  if (in.bad()) fail(Exit::kInput, "{}: cannot be read: {}", path.string(), errno_text());
  return content;
}

int open_regular(const fs::path& path, int flags) {
  const int safe = flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  const int descriptor = ::open(path.c_str(), safe, 0644);
  if (descriptor < 0 && errno == ELOOP)
    fail(Exit::kDisk, "{}: is a link, which is not followed; remove it", path.string());
  struct stat file {};
  // ENXIO: a named pipe that nobody reads, or a socket.
  const bool opened = descriptor >= 0 && ::fstat(descriptor, &file) == 0;
  if (opened && S_ISREG(file.st_mode)) return descriptor;
  const std::string reason = errno_text();
  const bool other = opened || errno == ENXIO || errno == EISDIR;
  if (descriptor >= 0) ::close(descriptor);
  if (other) fail(Exit::kDisk, "{}: is no regular file; remove it", path.string());
  fail(Exit::kDisk, "{}: cannot be opened: {}", path.string(), reason);
}

namespace {

constexpr size_t kChunk = size_t{1} << 18;
constexpr size_t kLongestLine = size_t{1} << 20;

// A file of a stranger's, open for reading.
class ForeignFile {
 public:
  explicit ForeignFile(const fs::path& path) {
    try {
      descriptor_ = open_regular(path, O_RDONLY);
    } catch (const UserError& error) {
      fail(Exit::kInput, "{}", error.what());
    }
    struct stat file {};
    if (::fstat(descriptor_, &file) == 0) size_ = file.st_size;
  }
  ~ForeignFile() { ::close(descriptor_); }
  ForeignFile(const ForeignFile&) = delete;
  ForeignFile& operator=(const ForeignFile&) = delete;

  int64_t size() const { return size_; }

  // The next bytes from there; fewer than asked for at the end, none where reading fails.
  std::string read(int64_t from, size_t bytes) const {
    std::string chunk(bytes, '\0');
    ssize_t got = 0;
    while ((got = ::pread(descriptor_, chunk.data(), bytes, from)) < 0 && errno == EINTR) continue;
    chunk.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    return chunk;
  }

 private:
  int descriptor_ = -1;
  int64_t size_ = 0;
};

}  // namespace

std::string read_regular_file(const fs::path& path, int64_t at_most) {
  const ForeignFile file(path);
  std::string content;
  const auto have = [&content] { return static_cast<int64_t>(content.size()); };
  while (std::max(have(), file.size()) <= at_most) {
    const std::string chunk = file.read(have(), kChunk);
    if (chunk.empty()) break;
    content += chunk;
  }
  if (std::max(have(), file.size()) > at_most)
    fail(Exit::kInput, "{}: holds more than {} bytes, which is too much", path.string(), at_most);
  if (have() < file.size()) fail(Exit::kInput, "{}: cannot be read whole", path.string());
  return content;
}

std::optional<std::string> content_of(const fs::path& path, int64_t at_most) {
  try {
    return read_regular_file(path, at_most);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

void each_line(const fs::path& path,
               int64_t at_most,
               const std::function<void(const std::string&)>& use) {
  std::optional<ForeignFile> file;
  try {
    file.emplace(path);
  } catch (const UserError&) {
    return;
  }
  // One byte earlier: a line that begins just at the boundary is whole.
  int64_t at = std::max<int64_t>(file->size() - at_most - 1, 0);
  const int64_t end = file->size();      // what is appended meanwhile is for the next time
  bool whole = file->size() <= at_most;  // else what comes first may be the end of a line
  std::string line;
  for (std::string chunk; at < end; at += static_cast<int64_t>(chunk.size())) {
    chunk = file->read(at, static_cast<size_t>(std::min<int64_t>(end - at, kChunk)));
    if (chunk.empty()) break;
    size_t begin = 0;
    for (size_t mark; (mark = chunk.find('\n', begin)) != std::string::npos; begin = mark + 1) {
      line.append(chunk, begin, mark - begin);
      if (whole && line.size() <= kLongestLine) use(line);
      line.clear();
      whole = true;
    }
    if (line.size() <= kLongestLine) line.append(chunk, begin);
  }
  if (whole && !line.empty() && line.size() <= kLongestLine) use(line);
}

fs::path temporary_name(const fs::path& path) {
  return fmt::format("{}{}{}", path.string(), kTemporary, random_hex(kRandomBytes));
}

bool is_temporary_name(const std::string& name) {
  const size_t mark = name.rfind(kTemporary);
  if (mark == std::string::npos || mark == 0) return false;
  const std::string end = name.substr(mark + kTemporary.size());
  const auto only = [&](const char* digits) {
    return end.find_first_not_of(digits) == std::string::npos;
  };
  if (end.size() == 2 * kRandomBytes && only("0123456789abcdef")) return true;
  return !end.empty() && only("0123456789");  // earlier versions used the number of the process
}

AtomicFile::AtomicFile(fs::path path, unsigned permissions)
    : path_(std::move(path)), descriptor_(open_in_place(path_)) {
  if (descriptor_ >= 0) return;
  do {
    temporary_ = temporary_name(path_);
    descriptor_ = ::open(
        temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, permissions);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) fail(Exit::kDisk, "{}: cannot be made: {}", path_.string(), errno_text());
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, size_t bytes) {
  write_checked(descriptor_, {static_cast<const char*>(data), bytes}, path_);
}

void AtomicFile::commit() {
  if (temporary_.empty()) return;
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

namespace {

// Half a line would swallow the next one. Nothing is taken back where another process has appended
// since, and nothing is said: the log is written here, too.
void take_back(int descriptor, off_t before, const std::string& line) {
  std::string there(line.size(), '\0');
  const ssize_t left = before < 0 ? -1 : ::pread(descriptor, there.data(), there.size(), before);
  if (left <= 0 ||
      line.compare(0, static_cast<size_t>(left), there, 0, static_cast<size_t>(left)) != 0)
    return;
  if (::ftruncate(descriptor, before) != 0) return;
}

}  // namespace

void append_line(const fs::path& path, std::string_view line) {
  const int descriptor = open_regular(path, O_RDWR | O_CREAT | O_APPEND);
  const off_t before = ::lseek(descriptor, 0, SEEK_END);
  char last = '\n';  // of what a writer that was killed has left
  if (before > 0 && ::pread(descriptor, &last, 1, before - 1) != 1) last = '\n';
  const std::string whole = (last == '\n' ? "" : "\n") + std::string(line) + "\n";
  try {
    write_checked(descriptor, whole, path);
  } catch (...) {
    take_back(descriptor, before, whole);
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

void make_private_folder(const fs::path& path) {
  std::error_code error;
  if (!path.empty() && !fs::exists(path, error)) {
    make_private_folder(path.parent_path());
    ::mkdir(path.c_str(), 0700);
  }
  if (!path.empty()) make_writable_folder(path);
}

std::string shared_with_others(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> paths = {folder};
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    paths.push_back(at->path());
  for (const fs::path& path : paths) {
    struct stat file {};
    if (::stat(path.c_str(), &file) != 0) continue;
    if (file.st_uid != ::geteuid() && file.st_uid != 0)
      return fmt::format("{}: belongs to another user", path.string());
    if ((file.st_mode & (S_IWGRP | S_IWOTH)) != 0)
      return fmt::format("{}: other users may write to it", path.string());
  }
  return "";
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  std::error_code failed;  // then the result is empty
  const fs::path outer = fs::weakly_canonical(fs::absolute(folder, failed), failed);
  const fs::path way =
      fs::weakly_canonical(fs::absolute(path, failed), failed).lexically_relative(outer);
  return !way.empty() && *way.begin() != "..";
}

int64_t free_bytes(const fs::path& folder) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0 || info.f_blocks == 0) return -1;
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

fs::path executable_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

fs::path cache_folder(const std::string& kind) {
  const fs::path own = environment_variable("GANTRAIN_CACHE_DIR");
  const fs::path xdg = environment_variable("XDG_CACHE_HOME");
  const fs::path home = environment_variable("HOME");
  fs::path root = own;
  if (root.empty() && !xdg.empty()) root = xdg / "gantrain";
  if (root.empty() && !home.empty()) root = home / ".cache/gantrain";
  if (root.empty()) return {};
  for (const fs::path& folder : {root, root / kind}) {
    const std::string shared = shared_with_others(folder);
    if (shared.empty()) continue;
    warn(
        "{}; nothing is kept in {} or read from there. Take the others' rights away (chmod -R "
        "go-w {}), or name another folder in GANTRAIN_CACHE_DIR",
        shared,
        root.string(),
        root.string());
    return {};
  }
  return root / kind;
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
