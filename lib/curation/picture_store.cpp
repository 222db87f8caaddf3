// SPDX-License-Identifier: Apache-2.0
#include "curation/picture_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "data/random_access_file.h"
#include "data/zip_directory.h"
#include "util/error.h"
#include "util/file.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

// What is written is sent to the disk in parts of this size, so that the last flush is short.
constexpr uint64_t kSentBytes = uint64_t{32} << 20;

[[noreturn]] void fail_write(const fs::path& path) {
  const bool full = errno == ENOSPC || errno == EDQUOT;
  fail(Exit::kDisk,
       "{}: cannot be written: {}{}",
       path.string(),
       errno_text(),
       full ? "; make room, and the same command goes on" : "");
}

void write_all(int descriptor, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(descriptor, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_write(path);
    bytes.remove_prefix(static_cast<size_t>(done));
  }
}

// Renames, and makes sure that a crash of the machine leaves the new name.
void put_in_place(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    fail(Exit::kDisk, "{}: cannot be put in place: {}", to.string(), errno_text());
  const fs::path folder = to.parent_path();
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

// Removes packed data, dataset.json last: what is left of it where the process is killed meanwhile
// can still be told from a folder of the user's. What cannot be removed stays.
void remove_packed(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_symlink(folder, error)) {
    std::vector<fs::path> inside;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
      inside.push_back(at->path());
    for (const fs::path& path : inside) {
      if (path.filename() != "dataset.json") fs::remove_all(path, error);
    }
  }
  fs::remove_all(folder, error);
}

class ZipStore final : public PictureStore {
 public:
  explicit ZipStore(fs::path path) : path_(std::move(path)), partial_(partial_path(path_)) {
    descriptor_ = ::open(partial_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0) fail_write(partial_);
  }
  ~ZipStore() override {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  ZipStore(const ZipStore&) = delete;
  ZipStore& operator=(const ZipStore&) = delete;

  std::optional<size_t> go_on(std::vector<StoredEntry> entries, const StopCheck& stop) override {
    const RandomAccessFile file(partial_.string(), partial_.string());
    std::string content;
    for (StoredEntry& entry : entries) {
      if (stop && stop()) return std::nullopt;
      entry.header = size_;
      const ZipEntry known = {.name = entry.name,
                              .header = static_cast<int64_t>(entry.header),
                              .size = static_cast<int64_t>(entry.size),
                              .checksum = entry.checksum,
                              .stored = true};
      const uint64_t end = entry.header + local_header(entry).size() + entry.size;
      if (end > static_cast<uint64_t>(file.size()) || !read_stored(file, known, content)) break;
      size_ = end;
      entries_.push_back(std::move(entry));
    }
    const auto size = static_cast<off_t>(size_);
    if (::ftruncate(descriptor_, size) != 0 || ::lseek(descriptor_, size, SEEK_SET) != size)
      fail_write(partial_);
    return entries_.size();
  }

  void add(StoredEntry entry, std::string_view content) override {
    entry.size = content.size();
    entry.header = size_;
    const std::string header = local_header(entry);
    write_all(descriptor_, header, partial_);
    write_all(descriptor_, content, partial_);
    size_ += header.size() + content.size();
    entries_.push_back(std::move(entry));
    if (size_ - sent_ < kSentBytes) return;
    ::sync_file_range(descriptor_,
                      static_cast<off64_t>(sent_),
                      static_cast<off64_t>(size_ - sent_),
                      SYNC_FILE_RANGE_WRITE);
    sent_ = size_;
  }

  void finish() override {
    write_all(descriptor_, central_directory(entries_, size_), partial_);
    if (::fsync(descriptor_) != 0) fail_write(partial_);
    put_in_place(partial_, path_);
  }

  void discard() override { ::unlink(partial_.c_str()); }

 private:
  fs::path path_;
  fs::path partial_;
  int descriptor_ = -1;
  std::vector<StoredEntry> entries_;
  uint64_t size_ = 0;  // bytes written
  uint64_t sent_ = 0;  // of which so many are on their way to the disk
};

class FolderStore final : public PictureStore {
 public:
  explicit FolderStore(fs::path path) : path_(std::move(path)), partial_(partial_path(path_)) {
    make_writable_folder(partial_);
  }

  std::optional<size_t> go_on(std::vector<StoredEntry> entries, const StopCheck& stop) override {
    size_t whole = 0;
    for (; whole < entries.size(); ++whole) {
      if (stop && stop()) return std::nullopt;
      if (!is_whole(entries[whole])) break;
    }
    if (whole == 0) {  // what lies there may be of other options
      fs::remove_all(partial_);
      make_writable_folder(partial_);
    }
    return whole;
  }

  void add(StoredEntry entry, std::string_view content) override {
    const fs::path path = partial_ / entry.name;
    if (path.parent_path() != made_) {
      made_ = path.parent_path();
      make_writable_folder(made_);
    }
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor < 0) fail_write(path);
    try {
      write_all(descriptor, content, path);
    } catch (...) {
      ::close(descriptor);
      throw;
    }
    if (::close(descriptor) != 0) fail_write(path);
  }

  void finish() override {
    const int descriptor = ::open(partial_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0 || ::syncfs(descriptor) != 0) fail_write(partial_);
    ::close(descriptor);
    // A folder with content cannot be replaced by a rename.
    const fs::path old = replaced_path(path_);
    std::error_code error;
    const bool replaces = fs::exists(path_, error);
    if (replaces) {
      // One that was killed left it there. Anything else makes the rename fail.
      if (fs::exists(old / "dataset.json", error)) remove_packed(old);
      put_in_place(path_, old);
    }
    put_in_place(partial_, path_);
    if (replaces) remove_packed(old);
  }

  void discard() override {
    std::error_code ignored;
    fs::remove_all(partial_, ignored);
  }

 private:
  bool is_whole(const StoredEntry& entry) const {
    std::error_code error;
    const fs::path path = partial_ / entry.name;
    if (!fs::is_regular_file(path, error) || fs::file_size(path, error) != entry.size) return false;
    return checksum_of(read_file(path)) == entry.checksum;
  }

  fs::path path_;
  fs::path partial_;
  fs::path made_;  // the folder that the last file was written to
};

}  // namespace

fs::path partial_path(const fs::path& path) { return path.string() + ".partial"; }

fs::path journal_path(const fs::path& path) { return partial_path(path).string() + ".journal"; }

fs::path replaced_path(const fs::path& path) { return path.string() + ".replaced"; }

std::unique_ptr<PictureStore> make_zip_store(const fs::path& path) {
  return std::make_unique<ZipStore>(path);
}

std::unique_ptr<PictureStore> make_folder_store(const fs::path& path) {
  return std::make_unique<FolderStore>(path);
}

}  // namespace gantrain
