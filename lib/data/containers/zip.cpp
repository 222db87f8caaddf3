// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <string_view>
#include <tuple>

#include "core/zip_archive.h"
#include "data/containers/formats.h"
#include "data/containers/source.h"
#include "util/error.h"

namespace gantrain {

namespace {

constexpr uint64_t kMaxDirectoryBytes = uint64_t{1} << 32;
constexpr size_t kEndBytes = 22;          // of the end record without its comment
constexpr size_t kEnd64Bytes = 56;        // of the Zip64 end record
constexpr size_t kLocatorBytes = 20;      // of what says where that lies
constexpr size_t kEntryBytes = 46;        // of an entry before its name
constexpr size_t kLocalHeaderBytes = 30;  // of the header before a content, before its name
constexpr uint64_t kIn64 = 0xffffffff;    // the number stands in the Zip64 field

// Numbers and signatures of the archive's records.
class Fields : public LittleEndian {
 public:
  using LittleEndian::LittleEndian;

  bool begins(size_t at, std::string_view signature) const {
    return part(at, signature.size()) == signature;
  }
};

std::string read_part(const RandomAccessFile& file, uint64_t offset, size_t count) {
  std::string bytes(count, '\0');
  bytes.resize(file.read(static_cast<int64_t>(offset), bytes.data(), count));
  return bytes;
}

// Where the central directory lies.
struct Place {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t entries = 0;
};

std::optional<Place> find_directory(const RandomAccessFile& file) {
  const auto size = static_cast<uint64_t>(file.size());
  const size_t looked = static_cast<size_t>(std::min<uint64_t>(size, 0xffff + kEndBytes));
  const std::string tail = read_part(file, size - looked, looked);
  const size_t at = tail.rfind("PK\5\6");
  if (at == std::string::npos || tail.size() - at < kEndBytes) return std::nullopt;
  const Fields end(std::string_view(tail).substr(at));
  Place place{.offset = end.u32(16), .bytes = end.u32(12), .entries = end.u16(10)};
  const uint64_t end_offset = size - looked + at;
  uint64_t behind = end_offset;  // where the directory must end
  if (at >= kLocatorBytes && Fields(tail).begins(at - kLocatorBytes, "PK\6\7")) {
    behind = Fields(tail).u64(at - kLocatorBytes + 8);
    if (behind > size) return std::nullopt;
    const std::string record = read_part(file, behind, kEnd64Bytes);
    const Fields end64(record);
    if (!end64.begins(0, "PK\6\6") || record.size() < kEnd64Bytes) return std::nullopt;
    place = {.offset = end64.u64(48), .bytes = end64.u64(40), .entries = end64.u64(32)};
  }
  const bool plain = place.bytes < kMaxDirectoryBytes && place.offset < size &&
                     place.offset + place.bytes == behind &&
                     place.entries <= place.bytes / kEntryBytes;
  return plain ? std::optional(place) : std::nullopt;
}

// The Zip64 field of an entry holds those numbers that do not fit into 32 bits, in this order.
bool read_zip64(std::string_view extra, uint64_t& size, uint64_t& packed, uint64_t& header) {
  const Fields fields(extra);
  for (size_t at = 0; at + 4 <= extra.size(); at += 4 + fields.u16(at + 2)) {
    if (fields.u16(at) != 1) continue;
    const size_t end = at + 4 + fields.u16(at + 2);
    at += 4;
    for (uint64_t* number : {&size, &packed, &header}) {
      if (*number != kIn64) continue;
      if (at + 8 > end || end > extra.size()) return false;
      *number = fields.u64(at);
      at += 8;
    }
    return true;
  }
  return false;
}

// Returns how many bytes lie before a stored content; nothing where no local header is there.
std::optional<int64_t> content_offset(const RandomAccessFile& file, const ZipEntry& entry) {
  // The local header has an extra field of its own, whose length stands only there.
  char header[kLocalHeaderBytes];
  if (file.read(entry.header, header, sizeof(header)) != sizeof(header)) return std::nullopt;
  const Fields fields(std::string_view(header, sizeof(header)));
  if (!fields.begins(0, "PK\3\4")) return std::nullopt;
  const auto behind = static_cast<int64_t>(kLocalHeaderBytes + fields.u16(26) + fields.u16(28));
  return entry.header + behind;
}

// No method that zip programs use shrinks more: an entry that claims to is a bomb.
constexpr zip_uint64_t kMostZipGrowth = 1100;
constexpr zip_uint64_t kZipBlock = zip_uint64_t{1} << 20;

#ifdef ZIP_ER_TRUNCATED_ZIP  // from libzip 1.11 on
constexpr int kTruncated = ZIP_ER_TRUNCATED_ZIP;
#else
constexpr int kTruncated = ZIP_ER_NOZIP;
#endif

ZipArchive open_archive(const std::string& path) {
  OpenedZip opened = open_zip_archive(path);
  if (opened.archive) return std::move(opened.archive);
  const bool no_directory =
      opened.code == ZIP_ER_NOZIP || opened.code == ZIP_ER_INCONS || opened.code == kTruncated;
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
    std::ranges::sort(found, [](const File& a, const File& b) {
      return std::tie(a.name, a.entry) < std::tie(b.name, b.entry);
    });
    // Of several entries of one name the last one counts, as for Python's zipfile.
    const auto last = std::unique(found.rbegin(), found.rend(), [](const File& a, const File& b) {
      return a.name == b.name;
    });
    found.erase(found.begin(), last.base());
    for (File& file : found) {
      files_.push_back(std::move(file.name));
      file.name.clear();
    }
    entries_ = std::move(found);
    pool_.give_back(std::move(archive));
  }

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
    check_file_bytes(name(file), status.size);
    if (status.size > kZipBlock && status.size / kMostZipGrowth > status.comp_size) {
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
      bytes.resize(
          static_cast<size_t>(std::min(size, std::max(2 * zip_uint64_t{done}, kZipBlock))));
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
};

}  // namespace

std::vector<ZipEntry> read_zip_directory(const RandomAccessFile& file) {
  const std::optional<Place> place = find_directory(file);
  if (!place) return {};
  const std::string bytes = read_part(file, place->offset, static_cast<size_t>(place->bytes));
  const Fields fields(bytes);
  std::vector<ZipEntry> entries;
  size_t at = 0;
  while (fields.begins(at, "PK\1\2") && at + kEntryBytes <= bytes.size()) {
    const auto name = static_cast<size_t>(fields.u16(at + 28));
    const auto extra = static_cast<size_t>(fields.u16(at + 30));
    const auto comment = static_cast<size_t>(fields.u16(at + 32));
    uint64_t packed = fields.u32(at + 20);
    uint64_t size = fields.u32(at + 24);
    uint64_t header = fields.u32(at + 42);
    const std::string_view field = fields.part(at + kEntryBytes + name, extra);
    const bool wide = size == kIn64 || packed == kIn64 || header == kIn64;
    const bool known = !wide || read_zip64(field, size, packed, header);
    const bool encrypted = (fields.u16(at + 8) & 1) != 0;
    const auto limit = static_cast<uint64_t>(file.size());
    entries.push_back({.name = std::string(fields.part(at + kEntryBytes, name)),
                       .header = static_cast<int64_t>(header),
                       .size = static_cast<int64_t>(size),
                       .checksum = static_cast<uint32_t>(fields.u32(at + 16)),
                       .stored = known && !encrypted && fields.u16(at + 10) == 0 &&
                                 size == packed && header < limit && size < limit});
    at += kEntryBytes + name + extra + comment;
  }
  return at == bytes.size() && entries.size() == place->entries ? entries : std::vector<ZipEntry>();
}

bool read_stored(const RandomAccessFile& file, const ZipEntry& entry, std::string& content) {
  const std::optional<int64_t> offset = content_offset(file, entry);
  if (!offset) return false;
  content.resize(static_cast<size_t>(entry.size));
  if (file.read(*offset, content.data(), content.size()) != content.size()) return false;
  const auto* bytes = reinterpret_cast<const Bytef*>(content.data());
  return crc32_z(0, bytes, content.size()) == entry.checksum;
}

std::unique_ptr<Source> open_zip(const std::string& path) { return std::make_unique<Zip>(path); }

}  // namespace gantrain
