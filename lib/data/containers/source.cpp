// SPDX-License-Identifier: Apache-2.0
#include "data/containers/source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <utility>

#include "util/error.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

RandomAccessFile::RandomAccessFile(const std::string& path, std::string name)
    : name_(std::move(name)), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) fail(Exit::kInput, "{}: cannot be opened: {}", name_, errno_text());
  struct stat status = {};
  if (::fstat(descriptor_, &status) == 0) size_ = status.st_size;
}

RandomAccessFile::RandomAccessFile(int descriptor, std::string name)
    : name_(std::move(name)), descriptor_(descriptor), has_path_(false) {
  struct stat status = {};
  if (::fstat(descriptor_, &status) == 0) size_ = status.st_size;
}

RandomAccessFile::~RandomAccessFile() { ::close(descriptor_); }

size_t RandomAccessFile::read(int64_t offset, char* out, size_t count) const {
  size_t done = 0;
  while (done < count) {
    const ssize_t got =
        ::pread(descriptor_, out + done, count - done, offset + static_cast<int64_t>(done));
    if (got == 0) break;
    if (got > 0) {
      done += static_cast<size_t>(got);
    } else if (errno != EINTR) {
      fail(Exit::kInput, "{}: cannot be read: {}", name_, errno_text());
    }
  }
  return done;
}

size_t FilePart::read(int64_t at, char* out, size_t count) const {
  if (at < 0 || at >= size) return 0;
  return file->read(offset + at, out, std::min(count, static_cast<size_t>(size - at)));
}

std::string FilePart::bytes(int64_t at, size_t count) const {
  const bool inside = at >= 0 && at <= size && count <= static_cast<size_t>(size - at);
  std::string result(inside ? count : 0, '\0');
  if (!inside || read(at, result.data(), count) != count) {
    fail(Exit::kInput, "{}: ends too early, the file was probably cut off", name);
  }
  return result;
}

FilePart whole_file(const std::string& path) {
  auto file = std::make_shared<const RandomAccessFile>(path, path);
  const int64_t size = file->size();
  return {.file = std::move(file), .offset = 0, .size = size, .name = path};
}

namespace {

constexpr size_t kWhole = size_t{4} << 20;  // contents of so many bytes are read whole
constexpr size_t kPart = size_t{64} << 10;  // of larger ones, bytes that are read at either end

FileMark mark_of_parts(int64_t bytes, std::string_view head, std::string_view tail) {
  Digest digest;
  digest.update(&bytes, sizeof(bytes));
  digest.update(head.data(), head.size());
  digest.update(tail.data(), tail.size());
  return {.bytes = bytes, .hash = "xxh3:" + digest.hex()};
}

// How many of a content's bytes are read at its beginning, and at its end.
size_t head_bytes(size_t size) { return size <= kWhole ? size : kPart; }
size_t tail_bytes(size_t size) { return size <= kWhole ? 0 : kPart; }

std::string text_of(const struct stat& status) {
  return fmt::format("{}-{}-{}.{:09}",
                     status.st_size,
                     status.st_ino,
                     status.st_ctim.tv_sec,
                     status.st_ctim.tv_nsec);
}

}  // namespace

FileMark mark_of(std::string_view content) {
  const std::string_view tail = content.substr(content.size() - tail_bytes(content.size()));
  return mark_of_parts(
      static_cast<int64_t>(content.size()), content.substr(0, head_bytes(content.size())), tail);
}

FileMark mark_of(const FilePart& part) {
  const auto size = static_cast<size_t>(part.size);
  const std::string head = part.bytes(0, head_bytes(size));
  const size_t rest = tail_bytes(size);
  const std::string tail = part.bytes(static_cast<int64_t>(size - rest), rest);
  return mark_of_parts(part.size, head, tail);
}

FileMark mark_of_checksum(int64_t bytes, uint32_t checksum) {
  return {.bytes = bytes, .hash = fmt::format("crc32:{:08x}", checksum)};
}

std::string stamp_of(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 ? text_of(status) : "";
}

std::string RandomAccessFile::stamp() const {
  struct stat status = {};
  return has_path_ && ::fstat(descriptor_, &status) == 0 ? text_of(status) : "";
}

FileMark Source::mark(size_t file) const {
  if (const auto unchanged = part(file)) return mark_of(*unchanged);
  std::string content;
  read(file, content);
  return mark_of(content);
}

std::string Source::stamp(size_t file) const {
  const auto unchanged = part(file);
  return unchanged ? unchanged->file->stamp() : "";
}

std::optional<size_t> Source::find(std::string_view path) const {
  const auto found = std::lower_bound(files().begin(), files().end(), path);
  if (found == files().end() || *found != path) return std::nullopt;
  return static_cast<size_t>(found - files().begin());
}

bool Source::is_picture(size_t file) const { return is_image_name(files()[file]); }

void Source::decode(size_t file, const NeededSize& needed, std::string& bytes, Image& image) const {
  read(file, bytes);
  decode_image(bytes, name(file), needed, image);
}

ImageInfo Source::look(size_t file, bool headers_only) const {
  std::string bytes;
  read(file, bytes);
  if (!headers_only) verify_image(bytes, name(file));
  return image_info(bytes, name(file));
}

void read_part(const FilePart& part, std::string& bytes) {
  if (part.size > kMaxFileBytes) {
    fail(Exit::kInput,
         "{}: {} MB are too many for a picture (at most {})",
         part.name,
         part.size >> 20,
         kMaxFileBytes >> 20);
  }
  bytes.resize(static_cast<size_t>(part.size));
  if (part.read(0, bytes.data(), bytes.size()) != bytes.size()) {
    fail(Exit::kInput, "{}: ends too early, the file was probably cut off", part.name);
  }
}

namespace {

namespace fs = std::filesystem;

// Whether a folder is one that a run has written: its samples are no data, least of all its own.
bool is_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "STATUS", ignored) && fs::exists(folder / "config.json", ignored);
}

// Collects files below a folder. Folders reached twice through links are entered once, in the
// order of their names, so that a loop ends and the outcome does not depend on the file system.
class FolderScan {
 public:
  explicit FolderScan(fs::path root) : root_(std::move(root)) {}

  std::vector<std::string> files() {
    enter("");
    if (!runs_.empty()) {
      info("{}: left out, the folder of a run{}",
           runs_.front(),
           runs_.size() > 1 ? fmt::format(", and {} more", runs_.size() - 1) : "");
    }
    std::sort(files_.begin(), files_.end());
    return std::move(files_);
  }

 private:
  void enter(const std::string& folder) {
    std::error_code error;
    const fs::path path = root_ / folder;
    if (!folder.empty() && is_run(path)) {
      runs_.push_back(path.string());
      return;
    }
    if (!seen_.insert(fs::canonical(path, error).string()).second) return;
    std::vector<std::string> folders;
    fs::directory_iterator entry(path, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (is_hidden(name)) continue;
      const std::string relative = folder.empty() ? name : folder + "/" + name;
      std::error_code ignored;  // a dangling link is neither file nor folder
      if (entry->is_directory(ignored)) {
        folders.push_back(relative);
      } else if (entry->is_regular_file(ignored)) {
        files_.push_back(relative);
      }
    }
    if (error) fail(Exit::kInput, "{}: cannot read the folder: {}", path.string(), error.message());
    std::sort(folders.begin(), folders.end());
    for (const std::string& inner : folders) enter(inner);
  }

  fs::path root_;
  std::set<std::string> seen_;
  std::vector<std::string> files_;
  std::vector<std::string> runs_;
};

class Folder final : public Source {
 public:
  explicit Folder(const std::string& path) : root_(path), files_(FolderScan(path).files()) {}

  const std::vector<std::string>& files() const override { return files_; }
  std::string name(size_t file) const override { return (root_ / files_[file]).string(); }
  void read(size_t file, std::string& bytes) const override {
    read_part(whole_file(name(file)), bytes);
  }
  std::optional<FilePart> part(size_t file) const override { return whole_file(name(file)); }
  std::string stamp(size_t file) const override { return stamp_of(name(file)); }

 private:
  fs::path root_;
  std::vector<std::string> files_;
};

}  // namespace

std::unique_ptr<Source> open_folder(const std::string& path) {
  return std::make_unique<Folder>(path);
}

bool is_hidden(std::string_view path) {
  for (const std::string& part : split(path, '/')) {
    if (starts_with(part, ".") || part == "__MACOSX") return true;
  }
  return false;
}

}  // namespace gantrain
