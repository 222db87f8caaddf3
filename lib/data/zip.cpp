// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <tuple>

#include "core/zip_archive.h"
#include "data/random_access_file.h"
#include "data/source.h"
#include "data/zip_directory.h"
#include "util/error.h"

namespace gantrain {

namespace {

// No method that zip programs use shrinks more: an entry that claims to is a bomb.
constexpr zip_uint64_t kMostGrowth = 1100;
constexpr zip_uint64_t kBlock = zip_uint64_t{1} << 20;

ZipArchive open_archive(const std::string& path) {
  OpenedZip opened = open_zip_archive(path);
  if (opened.archive) return std::move(opened.archive);
  const bool no_directory = opened.code == ZIP_ER_NOZIP || opened.code == ZIP_ER_INCONS;
  fail(Exit::kInput,
       "{}: broken zip archive: {}",
       path,
       no_directory ? "its directory is missing, the file was probably cut off; copy it again"
                    : opened.reason);
}

// A zip_t serves one thread at a time and shares its file offset with forked processes: so each
// read takes a free one of this process, or opens one.
class ArchivePool {
 public:
  explicit ArchivePool(std::string path) : path_(std::move(path)) {}

  ZipArchive take() {
    const std::lock_guard lock(mutex_);
    if (owner_ != getpid()) {
      for (ZipArchive& inherited : free_) inherited.release();  // closing would move their offset
      free_.clear();
      owner_ = getpid();
    }
    if (free_.empty()) return open_archive(path_);
    ZipArchive archive = std::move(free_.back());
    free_.pop_back();
    return archive;
  }

  void give_back(ZipArchive archive) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(archive));
  }

 private:
  std::string path_;
  std::mutex mutex_;
  pid_t owner_ = getpid();
  std::vector<ZipArchive> free_;
};

// A file of the archive: its place in libzip's order, and in the archive if it is stored there.
struct File {
  std::string name;
  zip_uint64_t entry = 0;
  std::optional<ZipEntry> stored;
  std::optional<FileMark> mark;  // as the directory has it
};

std::optional<FileMark> mark_in_directory(zip_t* archive, zip_uint64_t entry) {
  zip_stat_t status;
  zip_stat_init(&status);
  if (zip_stat_index(archive, entry, 0, &status) != 0) return std::nullopt;
  if ((status.valid & ZIP_STAT_CRC) == 0 || (status.valid & ZIP_STAT_SIZE) == 0)
    return std::nullopt;
  return mark_of_checksum(static_cast<int64_t>(status.size), status.crc);
}

class Zip final : public Source {
 public:
  explicit Zip(const std::string& path)
      : path_(path), pool_(path), bytes_(std::make_shared<const RandomAccessFile>(path, path)) {
    ZipArchive archive = pool_.take();
    std::vector<ZipEntry> directory = read_zip_directory(*bytes_);
    const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
    directory.resize(static_cast<size_t>(count));
    std::vector<File> found;
    for (zip_int64_t i = 0; i < count; ++i) {
      const auto entry = static_cast<zip_uint64_t>(i);
      const char* raw = zip_get_name(archive.get(), entry, ZIP_FL_ENC_RAW);
      ZipEntry& known = directory[static_cast<size_t>(i)];
      const bool stored = known.stored && raw != nullptr && known.name == raw;
      raw = zip_get_name(archive.get(), entry, 0);
      if (raw == nullptr) continue;
      std::string name = raw;
      std::replace(name.begin(), name.end(), '\\', '/');
      if (name.empty() || name.back() == '/' || is_hidden(name)) continue;
      found.push_back({std::move(name), entry, {}, mark_in_directory(archive.get(), entry)});
      if (stored) found.back().stored = std::move(known);
    }
    std::sort(found.begin(), found.end(), [](const File& a, const File& b) {
      return std::tie(a.name, a.entry) < std::tie(b.name, b.entry);
    });
    for (File& file : found) {
      files_.push_back(std::move(file.name));
      file.name.clear();
    }
    entries_ = std::move(found);
    pool_.give_back(std::move(archive));
  }

  const std::vector<std::string>& files() const override { return files_; }

  std::string name(size_t file) const override { return path_ + ":" + files_[file]; }

  FileMark mark(size_t file) const override {
    const std::optional<FileMark>& known = entries_[file].mark;
    return known ? *known : Source::mark(file);
  }
  std::string stamp(size_t) const override { return ""; }  // marks cost nothing

  std::optional<FilePart> part(size_t file) const override {
    const std::optional<ZipEntry>& stored = entries_[file].stored;
    const auto offset = stored ? content_offset(*bytes_, *stored) : std::nullopt;
    if (!offset) return std::nullopt;
    return FilePart{.file = bytes_, .offset = *offset, .size = stored->size, .name = name(file)};
  }

  // A stored file is read by many threads at once. Where it is not as the directory says, libzip
  // finds out what is wrong with it.
  void read(size_t file, std::string& bytes) const override {
    const std::optional<ZipEntry>& stored = entries_[file].stored;
    if (stored && stored->size <= kMaxFileBytes && read_stored(*bytes_, *stored, bytes)) {
      return;
    }
    unpack(file, bytes);
  }

 private:
  void unpack(size_t file, std::string& bytes) const {
    ZipArchive archive = pool_.take();
    const zip_uint64_t entry = entries_[file].entry;
    zip_stat_t status;
    zip_stat_init(&status);
    if (zip_stat_index(archive.get(), entry, 0, &status) != 0) fail_read(file, archive.get());
    check_size(file, status);
    ZipFile stream(zip_fopen_index(archive.get(), entry, 0));
    if (!stream) fail_read(file, archive.get());
    const bool whole = read_all(stream.get(), status.size, bytes);
    char behind = 0;  // reading on to the end makes libzip compare the checksum
    if (!whole || zip_fread(stream.get(), &behind, 1) != 0) {
      const bool known = zip_error_code_zip(zip_file_get_error(stream.get())) != ZIP_ER_OK;
      const char* reason = known ? zip_file_strerror(stream.get())
                                 : "it is not as long as the archive's directory says";
      fail(Exit::kInput, "{}: cannot be unpacked: {}", name(file), reason);
    }
    stream.reset();  // before another thread may have the archive
    pool_.give_back(std::move(archive));
  }

  void check_size(size_t file, const zip_stat_t& status) const {
    if (status.size > zip_uint64_t{kMaxFileBytes}) {
      fail(Exit::kInput,
           "{}: {} MB are too many for a picture (at most {})",
           name(file),
           status.size >> 20,
           kMaxFileBytes >> 20);
    }
    if (status.size > kBlock && status.size / kMostGrowth > status.comp_size) {
      fail(Exit::kInput,
           "{}: {} MB of {} bytes: a zip bomb",
           name(file),
           status.size >> 20,
           status.comp_size);
    }
  }

  // Takes memory only as the content comes, for the size stands in the directory, which may lie.
  static bool read_all(zip_file_t* stream, zip_uint64_t size, std::string& bytes) {
    size_t done = 0;
    while (done < size) {
      bytes.resize(static_cast<size_t>(std::min(size, std::max(2 * zip_uint64_t{done}, kBlock))));
      const zip_int64_t count = zip_fread(stream, bytes.data() + done, bytes.size() - done);
      if (count <= 0) return false;
      done += static_cast<size_t>(count);
    }
    bytes.resize(done);
    return true;
  }

  [[noreturn]] void fail_read(size_t file, zip_t* archive) const {
    fail(Exit::kInput, "{}: cannot be unpacked: {}", name(file), zip_strerror(archive));
  }

  std::string path_;
  mutable ArchivePool pool_;
  std::shared_ptr<const RandomAccessFile> bytes_;
  std::vector<File> entries_;
  std::vector<std::string> files_;
};

}  // namespace

std::unique_ptr<Source> open_zip(const std::string& path) { return std::make_unique<Zip>(path); }

}  // namespace gantrain
