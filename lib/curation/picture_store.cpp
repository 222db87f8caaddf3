// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <stdexcept>
#include <utility>

#include "curation/packing.h"
#include "data/containers/formats.h"
#include "data/containers/source.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr int64_t kMax16 = 0xffff;
constexpr int64_t kMax32 = 0xffffffff;
constexpr uint16_t kZipVersion = 20;    // that a reader needs: 2.0
constexpr uint16_t kZip64Version = 45;  // 4.5: Zip64
constexpr uint16_t kUtf8 = 1 << 11;     // flag: the name is UTF-8
constexpr uint16_t kDate = 1 << 5 | 1;  // 1980-01-01

int64_t bytes_in(std::string_view text) { return static_cast<int64_t>(text.size()); }

// Little-endian numbers, one behind the other.
class Record {
 public:
  Record& text(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  Record& u16(int64_t value) { return number(value, 2); }
  Record& u32(int64_t value) { return number(value, 4); }
  Record& u64(int64_t value) { return number(value, 8); }
  const std::string& bytes() const { return bytes_; }

 private:
  Record& number(int64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }

  std::string bytes_;
};

uint16_t flags_of(const std::string& name) {
  const bool ascii =
      std::ranges::all_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  return ascii ? 0 : kUtf8;
}

std::string directory_entry(const ZipEntry& entry) {
  const bool far = entry.header >= kMax32;
  Record extra;
  if (far) extra.u16(1).u16(8).u64(entry.header);  // the Zip64 field
  Record record;
  record.text("PK\1\2").u16(3 << 8 | (far ? kZip64Version : kZipVersion));  // made on Unix
  record.u16(far ? kZip64Version : kZipVersion).u16(flags_of(entry.name));
  record.u16(0).u16(0).u16(kDate).u32(entry.checksum);  // stored; time; date
  record.u32(entry.size).u32(entry.size);
  record.u16(bytes_in(entry.name)).u16(bytes_in(extra.bytes())).u16(0).u16(0).u16(0);
  record.u32(int64_t{0100644} << 16);  // a file that all may read
  record.u32(std::min(entry.header, kMax32)).text(entry.name).text(extra.bytes());
  return record.bytes();
}

constexpr const char* kFormat = "gantrain.pack.1";
constexpr double kFlushSeconds = 1;

std::string line_of(const PackedPicture& p) {
  const Json line = {p.label, p.bytes, p.checksum, p.bad};
  // Names of files need not be UTF-8.
  return json_line(line) + "\n";
}

std::optional<PackedPicture> read_line(const std::string& line) {
  const Json json = parse_foreign(line);
  const bool sound = json.is_array() && json.size() == 4 && json[0].is_number_integer() &&
                     json[1].is_number_unsigned() && json[2].is_number_unsigned() &&
                     json[3].is_string();
  if (!sound) return std::nullopt;
  return PackedPicture{.label = json[0], .bytes = json[1], .checksum = json[2], .bad = json[3]};
}

// What is written is sent to the disk in parts of this size, so that the last flush is short.
constexpr int64_t kSentBytes = int64_t{32} << 20;

[[noreturn]] void fail_write(const fs::path& path) {
  const bool full = errno == ENOSPC || errno == EDQUOT;
  fail(Exit::kDisk,
       "{}: cannot be written: {}{}",
       path.string(),
       errno_text(),
       full ? "; make room, and the same command goes on" : "");
}

void write_all(int descriptor, std::string_view bytes, const fs::path& path) {
  if (!write_whole(descriptor, bytes)) fail_write(path);
}

// Renames, and makes sure that a crash of the machine leaves the new name.
void put_in_place(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    fail(Exit::kDisk, "{}: cannot be put in place: {}", to.string(), errno_text());
  flush_folder_of(to);
}

// Pictures must not go where a planted link leads.
void refuse_link(const fs::path& folder) {
  std::error_code error;
  if (fs::is_symlink(folder, error))
    fail(Exit::kDisk, "{}: is a link, which is not followed; remove it", folder.string());
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
    descriptor_ = open_regular(partial_, O_RDWR | O_CREAT);
  }
  ~ZipStore() override {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  ZipStore(const ZipStore&) = delete;
  ZipStore& operator=(const ZipStore&) = delete;

  std::optional<size_t> go_on(std::vector<ZipEntry> entries, const StopCheck& stop) override {
    const RandomAccessFile file(partial_.string(), partial_.string());
    std::string content;
    for (ZipEntry& entry : entries) {
      if (stop && stop()) return std::nullopt;
      entry.header = size_;
      const int64_t end = size_ + bytes_in(local_header(entry)) + entry.size;
      if (end > file.size() || !read_stored(file, entry, content)) break;
      size_ = end;
      entries_.push_back(std::move(entry));
    }
    if (::ftruncate(descriptor_, size_) != 0 || ::lseek(descriptor_, size_, SEEK_SET) != size_)
      fail_write(partial_);
    return entries_.size();
  }

  void add(ZipEntry entry, std::string_view content) override {
    entry.size = bytes_in(content);
    entry.header = size_;
    const std::string header = local_header(entry);
    write_all(descriptor_, header, partial_);
    write_all(descriptor_, content, partial_);
    size_ += bytes_in(header) + entry.size;
    entries_.push_back(std::move(entry));
    if (size_ - sent_ < kSentBytes) return;
    ::sync_file_range(descriptor_, sent_, size_ - sent_, SYNC_FILE_RANGE_WRITE);
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
  std::vector<ZipEntry> entries_;
  int64_t size_ = 0;  // bytes written
  int64_t sent_ = 0;  // of which so many are on their way to the disk
};

class FolderStore final : public PictureStore {
 public:
  explicit FolderStore(fs::path path) : path_(std::move(path)), partial_(partial_path(path_)) {
    refuse_link(partial_);
    make_writable_folder(partial_);
  }

  std::optional<size_t> go_on(std::vector<ZipEntry> entries, const StopCheck& stop) override {
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

  void add(ZipEntry entry, std::string_view content) override {
    const fs::path path = partial_ / entry.name;
    if (path.parent_path() != made_) {
      made_ = path.parent_path();
      refuse_link(made_);
      make_writable_folder(made_);
    }
    ::unlink(path.c_str());  // of a command that was killed, or planted
    const int descriptor = open_regular(path, O_WRONLY | O_CREAT | O_EXCL);
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
  bool is_whole(const ZipEntry& entry) const {
    const auto content = content_of(partial_ / entry.name, entry.size);
    return content && static_cast<int64_t>(content->size()) == entry.size &&
           checksum_of(*content) == entry.checksum;
  }

  fs::path path_;
  fs::path partial_;
  fs::path made_;  // the folder that the last file was written to
};

}  // namespace

uint32_t checksum_of(std::string_view content) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
}

std::string local_header(const ZipEntry& entry) {
  if (entry.size >= kMax32) throw std::invalid_argument("zip: an entry of 4 GiB: " + entry.name);
  Record record;
  record.text("PK\3\4").u16(kZipVersion).u16(flags_of(entry.name)).u16(0).u16(0).u16(kDate);
  record.u32(entry.checksum).u32(entry.size).u32(entry.size);
  record.u16(bytes_in(entry.name)).u16(0).text(entry.name);
  return record.bytes();
}

std::string central_directory(const std::vector<ZipEntry>& entries, int64_t offset) {
  Record record;
  for (const ZipEntry& entry : entries) record.text(directory_entry(entry));
  const int64_t size = bytes_in(record.bytes());
  const auto count = static_cast<int64_t>(entries.size());
  if (count >= kMax16 || size >= kMax32 || offset >= kMax32) {
    constexpr int64_t kRecordBytes = 44;  // of the Zip64 end record behind this number
    record.text("PK\6\6").u64(kRecordBytes).u16(3 << 8 | kZip64Version).u16(kZip64Version);
    record.u32(0).u32(0).u64(count).u64(count).u64(size).u64(offset);
    record.text("PK\6\7").u32(0).u64(offset + size).u32(1);  // where that record lies
  }
  record.text("PK\5\6").u16(0).u16(0).u16(std::min(count, kMax16)).u16(std::min(count, kMax16));
  record.u32(std::min(size, kMax32)).u32(std::min(offset, kMax32)).u16(0);
  return record.bytes();
}

PackJournal::PackJournal(std::filesystem::path path, const Json& job)
    : path_(std::move(path)), job_({{"format", kFormat}, {"job", job}}) {
  descriptor_ = open_regular(path_, O_RDWR | O_CREAT);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(descriptor_);
    fail(Exit::kUsage, "{}: another gantrain data pack is at work there", path_.string());
  }
  const std::string content = read_regular_file(path_, int64_t{1} << 32);
  // The last part has no newline: empty, or a line that was being written when the process died.
  std::vector<std::string> lines = split(content, '\n');
  lines.pop_back();
  const bool same = !lines.empty() && parse_foreign(lines[0]) == job_;
  was_of_another_job_ = !content.empty() && !same;
  if (!same) {
    const std::string header = job_.dump() + "\n";
    cut(0);
    append(header);
    ends_ = {header.size()};
    return;
  }
  ends_ = {lines[0].size() + 1};
  for (size_t i = 1; i < lines.size(); ++i) {
    auto picture = read_line(lines[i]);
    if (!picture) break;
    pictures_.push_back(std::move(*picture));
    ends_.push_back(ends_.back() + lines[i].size() + 1);
  }
  cut(ends_.back());
}

PackJournal::~PackJournal() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void PackJournal::keep_first(size_t kept) {
  if (kept >= pictures_.size()) return;
  flush();
  pictures_.resize(kept);
  ends_.resize(kept + 1);
  cut(ends_.back());
}

void PackJournal::add(PackedPicture picture) {
  const std::string line = line_of(picture);
  unwritten_ += line;
  ends_.push_back(ends_.back() + line.size());
  pictures_.push_back(std::move(picture));
  if (monotonic_seconds() - written_at_ >= kFlushSeconds) flush();
}

void PackJournal::flush() {
  append(std::exchange(unwritten_, ""));
  written_at_ = monotonic_seconds();
}

void PackJournal::remove() { ::unlink(path_.c_str()); }

// Keeps the first bytes of the file and goes on behind them.
void PackJournal::cut(size_t bytes) {
  const auto size = static_cast<off_t>(bytes);
  if (::ftruncate(descriptor_, size) != 0 || ::lseek(descriptor_, size, SEEK_SET) != size)
    fail(Exit::kDisk, "{}: cannot be written: {}", path_.string(), errno_text());
}

void PackJournal::append(const std::string& text) {
  if (!write_whole(descriptor_, text))
    fail(Exit::kDisk, "{}: cannot be written: {}", path_.string(), errno_text());
}

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
