// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <tuple>

#include "data/random_access_file.h"
#include "data/source.h"
#include "data/zip_directory.h"
#include "util/error.h"

namespace gantrain {

namespace {

constexpr zip_uint64_t kMaxEntryBytes = zip_uint64_t{1} << 30;

struct CloseArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
using Archive = std::unique_ptr<zip_t, CloseArchive>;

struct CloseEntry {
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};
using Entry = std::unique_ptr<zip_file_t, CloseEntry>;

Archive open_archive(const std::string& path) {
  int code = 0;
  Archive archive(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (archive) return archive;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string reason = zip_error_strerror(&error);
  zip_error_fini(&error);
  const bool no_directory = code == ZIP_ER_NOZIP || code == ZIP_ER_INCONS;
  fail(Exit::kInput,
       "{}: broken zip archive: {}",
       path,
       no_directory ? "its directory is missing, the file was probably cut off; copy it again"
                    : reason);
}

// A zip_t serves one thread at a time and shares its file offset with forked processes: so each
// read takes a free one of this process, or opens one.
class ArchivePool {
 public:
  explicit ArchivePool(std::string path) : path_(std::move(path)) {}

  Archive take() {
    const std::lock_guard lock(mutex_);
    if (owner_ != getpid()) {
      for (Archive& inherited : free_) inherited.release();  // closing would move their offset
      free_.clear();
      owner_ = getpid();
    }
    if (free_.empty()) return open_archive(path_);
    Archive archive = std::move(free_.back());
    free_.pop_back();
    return archive;
  }

  void give_back(Archive archive) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(archive));
  }

 private:
  std::string path_;
  std::mutex mutex_;
  pid_t owner_ = getpid();
  std::vector<Archive> free_;
};

// A file of the archive: its place in libzip's order, and in the archive if it is stored there.
struct File {
  std::string name;
  zip_uint64_t entry = 0;
  std::optional<ZipEntry> stored;
};

class Zip final : public Source {
 public:
  explicit Zip(const std::string& path) : path_(path), pool_(path), bytes_(path, path) {
    Archive archive = pool_.take();
    std::vector<ZipEntry> directory = read_zip_directory(bytes_);
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
      found.push_back({std::move(name), entry, {}});
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

  // A stored file is read by many threads at once. Where it is not as the directory says, libzip
  // finds out what is wrong with it.
  void read(size_t file, std::string& bytes) const override {
    const std::optional<ZipEntry>& stored = entries_[file].stored;
    if (stored && stored->size <= static_cast<int64_t>(kMaxEntryBytes) &&
        read_stored(bytes_, *stored, bytes)) {
      return;
    }
    unpack(file, bytes);
  }

 private:
  void unpack(size_t file, std::string& bytes) const {
    Archive archive = pool_.take();
    const zip_uint64_t entry = entries_[file].entry;
    zip_stat_t status;
    zip_stat_init(&status);
    if (zip_stat_index(archive.get(), entry, 0, &status) != 0) fail_read(file, archive.get());
    if (status.size > kMaxEntryBytes) {
      fail(Exit::kInput, "{}: {} bytes are too many for a picture", name(file), status.size);
    }
    Entry stream(zip_fopen_index(archive.get(), entry, 0));
    if (!stream) fail_read(file, archive.get());
    bytes.resize(static_cast<size_t>(status.size));
    const zip_int64_t count = zip_fread(stream.get(), bytes.data(), bytes.size());
    char behind = 0;  // reading on to the end makes libzip compare the checksum
    if (count != static_cast<zip_int64_t>(bytes.size()) ||
        zip_fread(stream.get(), &behind, 1) != 0) {
      fail(Exit::kInput, "{}: cannot be unpacked: {}", name(file), zip_file_strerror(stream.get()));
    }
    stream.reset();  // before another thread may have the archive
    pool_.give_back(std::move(archive));
  }

  [[noreturn]] void fail_read(size_t file, zip_t* archive) const {
    fail(Exit::kInput, "{}: cannot be unpacked: {}", name(file), zip_strerror(archive));
  }

  std::string path_;
  mutable ArchivePool pool_;
  RandomAccessFile bytes_;
  std::vector<File> entries_;
  std::vector<std::string> files_;
};

}  // namespace

std::unique_ptr<Source> open_zip(const std::string& path) { return std::make_unique<Zip>(path); }

}  // namespace gantrain
