// SPDX-License-Identifier: Apache-2.0
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "data/containers/formats.h"
#include "data/containers/source.h"
#include "data/labels/labels.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

// What libarchive reads from. It reads and skips by the functions below, whose `data` is an
// ArchiveInput.
struct ArchiveInput {
  const FilePart& part;
  std::vector<char> block;  // as long as the pieces that are read at once
  int64_t at = 0;           // in the part
  std::string failed = {};  // the message of a read that failed
};

struct FreeArchiveReader {
  void operator()(archive* reader) const { archive_read_free(reader); }
};
using ArchiveReader = std::unique_ptr<archive, FreeArchiveReader>;

la_ssize_t read_archive_input(archive*, void* data, const void** out) {
  auto& input = *static_cast<ArchiveInput*>(data);
  try {
    const size_t count = input.part.read(input.at, input.block.data(), input.block.size());
    input.at += static_cast<int64_t>(count);
    *out = input.block.data();
    return static_cast<la_ssize_t>(count);
  } catch (const UserError& error) {  // an exception must not pass through C
    input.failed = error.what();
    return -1;
  }
}

la_int64_t skip_archive_input(archive*, void* data, la_int64_t count) {
  auto& input = *static_cast<ArchiveInput*>(data);
  const int64_t skipped = std::clamp<int64_t>(count, 0, input.part.size - input.at);
  input.at += skipped;
  return skipped;
}

constexpr size_t kUnpackBlock = size_t{64} << 10;
// Pictures hardly shrink, and MNIST's digits do by five. What grows by more is a bomb.
constexpr int64_t kMostGrowth = 200;
constexpr int64_t kAlwaysAllowed = int64_t{256} << 20;
constexpr double kSecondsWorthAWord = 2;

struct Temporary {
  int descriptor = -1;
  std::string folder;
};

// $TMPDIR is the user's choice; /tmp often lies in memory, /var/tmp hardly ever.
Temporary make_temporary(const std::string& name) {
  std::vector<std::string> folders = {"/var/tmp", "/tmp"};
  if (const char* chosen = std::getenv("TMPDIR"); chosen != nullptr && *chosen != '\0') {
    folders.insert(folders.begin(), chosen);
  }
  for (const std::string& folder : folders) {
    int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (descriptor < 0) {  // not every file system has files without a name
      std::string path = folder + "/gantrain-XXXXXX";
      descriptor = ::mkostemp(path.data(), O_CLOEXEC);
      if (descriptor >= 0) ::unlink(path.c_str());
    }
    if (descriptor >= 0) return {descriptor, folder};
  }
  fail(Exit::kDisk,
       "{}: no temporary file can be made to unpack it: {}; TMPDIR names a folder for it",
       name,
       errno_text());
}

// The temporary file while it is being written.
class Output {
 public:
  Output(const FilePart& packed, const StopCheck& stop)
      : packed_(packed), stop_(stop), temporary_(make_temporary(packed.name)) {}
  ~Output() {
    if (temporary_.descriptor >= 0) ::close(temporary_.descriptor);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(const char* data, size_t count) {
    written_ += static_cast<int64_t>(count);
    if (written_ > kAlwaysAllowed && written_ / kMostGrowth > packed_.size) {
      fail(Exit::kInput,
           "{}: unpacks to more than {} times its size; that is no data set",
           packed_.name,
           kMostGrowth);
    }
    if (stop_ && stop_()) fail(Exit::kStopped, "stopped while {} was unpacked", packed_.name);
    if (!write_whole(temporary_.descriptor, {data, count})) {
      fail(Exit::kDisk,
           "{}: cannot be unpacked to a temporary file in {}: {}; TMPDIR names another folder, or "
           "unpack it yourself and give the result to --data",
           packed_.name,
           temporary_.folder,
           errno_text());
    }
  }

  const std::string& folder() const { return temporary_.folder; }
  int64_t written() const { return written_; }

  FilePart take() {
    const int descriptor = std::exchange(temporary_.descriptor, -1);
    auto file = std::make_shared<const RandomAccessFile>(descriptor, packed_.name);
    return {.file = std::move(file), .offset = 0, .size = written_, .name = packed_.name};
  }

 private:
  const FilePart& packed_;
  const StopCheck& stop_;
  Temporary temporary_;
  int64_t written_ = 0;
};

[[noreturn]] void fail_damaged(const FilePart& part, const std::string& reason) {
  fail(Exit::kInput, "{}: cannot be unpacked: {}", part.name, reason);
}

struct EndInflate {
  void operator()(z_stream* stream) const { inflateEnd(stream); }
};

// RFC 1952: members one after the other, each with a checksum, which libarchive does not compare.
void unpack_gzip(const FilePart& part, Output& out) {
  z_stream stream = {};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, EndInflate> owner(&stream);
  std::vector<char> in(kUnpackBlock);
  std::vector<char> block(kUnpackBlock);
  int64_t at = 0;
  bool inside = false;  // a member has begun and not ended
  bool full = false;    // the last block was, so that more may be waiting inside zlib
  bool any = false;     // a member has ended
  while (true) {
    if (stream.avail_in == 0 && !full) {
      stream.avail_in = static_cast<uInt>(part.read(at, in.data(), in.size()));
      stream.next_in = reinterpret_cast<Bytef*>(in.data());
      at += stream.avail_in;
      if (stream.avail_in == 0) break;
    }
    if (any && !inside && *stream.next_in != 0x1f) break;  // padding behind the last member
    inside = true;
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    const int code = inflate(&stream, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
      fail_damaged(part, stream.msg != nullptr ? stream.msg : "damaged gzip data");
    }
    out.write(block.data(), block.size() - stream.avail_out);
    full = stream.avail_out == 0 && code != Z_STREAM_END;
    if (code == Z_STREAM_END) {
      inside = false;
      any = true;
      inflateReset(&stream);
    }
  }
  if (inside) fail_damaged(part, "it ends too early, the file was probably cut off");
}

void unpack_others(const FilePart& part, Output& out) {
  const ArchiveReader owner(archive_read_new());
  archive* const reader = owner.get();
  if (reader == nullptr) throw std::bad_alloc();
  archive_read_support_filter_zstd(reader);
  archive_read_support_filter_xz(reader);
  archive_read_support_filter_bzip2(reader);
  archive_read_support_format_raw(reader);
  archive_read_support_format_empty(reader);
  ArchiveInput input{part, std::vector<char>(kUnpackBlock)};
  const auto check = [&](la_ssize_t code) {
    if (code >= ARCHIVE_OK || code == ARCHIVE_WARN) return;
    if (!input.failed.empty()) fail(Exit::kInput, "{}", input.failed);
    const char* reason = archive_error_string(reader);
    fail_damaged(part, reason != nullptr ? reason : "damaged data");
  };
  check(archive_read_open(reader, &input, nullptr, read_archive_input, nullptr));
  archive_entry* entry = nullptr;
  const int first = archive_read_next_header(reader, &entry);
  if (first == ARCHIVE_EOF) return;
  check(first);
  std::vector<char> block(kUnpackBlock);
  while (true) {
    const la_ssize_t count = archive_read_data(reader, block.data(), block.size());
    check(count);
    if (count <= 0) break;
    out.write(block.data(), static_cast<size_t>(count));
  }
}

bool is_gzip(std::string_view start) { return starts_with(start, "\x1f\x8b"); }

constexpr size_t kHeaderBytes = 512;
// One header and what follows it: most of a large archive is skipped and never read.
constexpr size_t kTarBlock = 4096;
// More archives than this are opened for each read, for a process may have 1024 files open.
constexpr size_t kMostOpen = 256;

std::string name_of(archive_entry* entry) {
  const char* raw = archive_entry_pathname_utf8(entry);
  if (raw == nullptr) raw = archive_entry_pathname(entry);
  std::string name = raw != nullptr ? raw : "";
  std::replace(name.begin(), name.end(), '\\', '/');
  while (starts_with(name, "./")) name.erase(0, 2);
  return name;
}

// Whether the content of an entry lies in the archive as it is.
bool has_content(archive_entry* entry) {
  return archive_entry_filetype(entry) == AE_IFREG && archive_entry_hardlink(entry) == nullptr &&
         archive_entry_sparse_count(entry) == 0 && archive_entry_size_is_set(entry) != 0;
}

// Walks over the headers with libarchive, which knows pax and GNU names and sizes.
class HeaderWalk {
 public:
  explicit HeaderWalk(const FilePart& part)
      : part_(part), input_{part, std::vector<char>(kTarBlock)}, reader_(archive_read_new()) {
    if (!reader_) throw std::bad_alloc();
    archive_read_support_format_tar(reader_.get());
    archive_read_support_format_empty(reader_.get());
    if (archive_read_open2(
            reader_.get(), &input_, nullptr, read_archive_input, skip_archive_input, nullptr) !=
        ARCHIVE_OK) {
      fail_walk();
    }
  }

  // Returns false behind the last entry that has a content.
  bool next(TarEntry& entry) {
    archive_entry* header = nullptr;
    while (true) {
      const int code = archive_read_next_header(reader_.get(), &header);
      if (code == ARCHIVE_EOF) return false;
      if (code != ARCHIVE_OK && code != ARCHIVE_WARN) fail_walk();
      if (!has_content(header)) continue;
      entry.name = name_of(header);
      entry.offset = archive_filter_bytes(reader_.get(), 0);
      entry.size = archive_entry_size(header);
      if (entry.offset > part_.size || entry.size > part_.size - entry.offset || entry.size < 0) {
        fail(Exit::kInput,
             "{}: broken tar archive: {} ends behind the archive, which was probably cut off; copy "
             "it again",
             part_.name,
             entry.name);
      }
      return true;
    }
  }

 private:
  [[noreturn]] void fail_walk() const {
    if (!input_.failed.empty()) fail(Exit::kInput, "{}", input_.failed);
    const char* reason = archive_error_string(reader_.get());
    fail(Exit::kInput,
         "{}: broken tar archive: {}",
         part_.name,
         reason != nullptr ? reason : "damaged header");
  }

  const FilePart& part_;
  ArchiveInput input_;
  ArchiveReader reader_;
};

// One of the archives.
struct Shard {
  std::string path;
  FilePart part;  // without a file where there are too many to keep all open
};

struct ShardEntry {
  size_t shard = 0;
  int64_t offset = 0;
  int64_t size = 0;
};

bool all_different(const std::vector<std::string>& names) {
  return std::set<std::string_view>(names.begin(), names.end()).size() == names.size();
}

// A name without '/' for each archive, all of them different: that of its file; with its folders
// where files of several folders are called alike; with its number where that is not enough.
std::vector<std::string> names_of_shards(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    names.push_back(std::filesystem::path(path).filename().string());
  }
  if (all_different(names)) return names;
  const size_t shared = common_folders(paths);
  for (size_t i = 0; i < paths.size(); ++i) {
    names[i] = paths[i].substr(shared);
    std::replace(names[i].begin(), names[i].end(), '/', '-');
  }
  if (all_different(names)) return names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = fmt::format("{}-{}", i, names[i]);
  return names;
}

class Tars final : public Source {
 public:
  Tars(const std::vector<std::string>& paths, const StopCheck& stop) {
    std::vector<std::pair<TarEntry, size_t>> found;
    for (const std::string& path : paths) {
      if (stop && stop()) fail(Exit::kStopped, "stopped while {} was opened", path);
      const FilePart packed = whole_file(path);
      Shard shard{.path = path, .part = unpacked(packed, stop)};
      for (TarEntry& entry : read_tar_directory(shard.part)) {
        found.emplace_back(std::move(entry), shards_.size());
      }
      const bool plain = shard.part.file == packed.file;
      if (plain && shards_.size() >= kMostOpen) shard.part.file.reset();
      shards_.push_back(std::move(shard));
    }
    std::set<std::string_view> different;
    for (const auto& [entry, shard] : found) different.insert(entry.name);
    if (different.size() < found.size()) {
      own_folders_ = 1;
      const std::vector<std::string> names = names_of_shards(paths);
      for (auto& [entry, shard] : found) {
        entry.name = fmt::format("{}/{}", names[shard], entry.name);
      }
    }
    std::ranges::sort(found, [](const auto& a, const auto& b) {
      return std::tie(a.first.name, a.second) < std::tie(b.first.name, b.second);
    });
    for (auto& [entry, shard] : found) {
      files_.push_back(std::move(entry.name));
      entries_.push_back({shard, entry.offset, entry.size});
    }
    if (shards_.size() > 1) kind_ = fmt::format("{} tar archives", shards_.size());
  }

  std::string name(size_t file) const override {
    const std::string& path = shards_[entries_[file].shard].path;
    const size_t skip = own_folders_ == 0 ? 0 : files_[file].find('/') + 1;
    return path + ":" + files_[file].substr(skip);
  }

  std::optional<FilePart> part(size_t file) const override {
    const ShardEntry& entry = entries_[file];
    const Shard& shard = shards_[entry.shard];
    const FilePart whole = shard.part.file ? shard.part : whole_file(shard.path);
    return whole.part(entry.offset, entry.size, name(file));
  }

 private:
  std::vector<Shard> shards_;
  std::vector<ShardEntry> entries_;
};

}  // namespace

bool is_compressed(std::string_view start) {
  return is_gzip(start) || starts_with(start, "\x28\xb5\x2f\xfd") ||
         starts_with(start, std::string_view("\xfd\x37zXZ\0", 6)) || starts_with(start, "BZh");
}

FilePart unpacked(const FilePart& part, const StopCheck& stop) {
  char start[6] = {};
  const std::string_view begins(start, part.read(0, start, sizeof(start)));
  if (!is_compressed(begins)) return part;
  const double began = monotonic_seconds();
  Output out(part, stop);
  if (is_gzip(begins)) {
    unpack_gzip(part, out);
  } else {
    unpack_others(part, out);
  }
  const double seconds = monotonic_seconds() - began;
  if (seconds > kSecondsWorthAWord) {
    info(
        "{}: unpacked {} MB to a temporary file in {} in {:.0f} s, as at every start; unpack it "
        "once yourself to save that",
        part.name,
        out.written() >> 20,
        out.folder(),
        seconds);
  }
  return out.take();
}

bool is_tar(std::string_view start) {
  constexpr size_t kChecksum = 148;  // of 8 octal digits, which count as blanks themselves
  if (start.size() < kHeaderBytes) return false;
  uint64_t sum = 0;
  for (size_t i = 0; i < kHeaderBytes; ++i) {
    const bool blank = i >= kChecksum && i < kChecksum + 8;
    sum += blank ? uint64_t{' '} : static_cast<uint8_t>(start[i]);
  }
  uint64_t stated = 0;
  size_t digits = 0;
  for (const char c : start.substr(kChecksum, 8)) {
    if (c >= '0' && c <= '7') {
      stated = stated * 8 + static_cast<uint64_t>(c - '0');
      ++digits;
    } else if (digits > 0) {
      break;
    }
  }
  return digits > 0 && stated == sum;
}

std::vector<TarEntry> read_tar_directory(const FilePart& archive) {
  HeaderWalk walk(archive);
  std::vector<TarEntry> entries;
  TarEntry entry;
  while (walk.next(entry)) {
    if (!entry.name.empty() && !is_hidden(entry.name)) entries.push_back(entry);
  }
  std::ranges::stable_sort(entries,
                           [](const TarEntry& a, const TarEntry& b) { return a.name < b.name; });
  std::vector<TarEntry> last;
  for (TarEntry& one : entries) {
    if (!last.empty() && last.back().name == one.name) last.pop_back();
    last.push_back(std::move(one));
  }
  return last;
}

std::unique_ptr<Source> open_tars(const std::vector<std::string>& paths, const StopCheck& stop) {
  return std::make_unique<Tars>(paths, stop);
}

}  // namespace gantrain
