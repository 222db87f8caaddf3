// SPDX-License-Identifier: Apache-2.0
#include "data/zip_directory.h"

#include <zlib.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "data/little_endian.h"

namespace gantrain {

namespace {

constexpr uint64_t kMaxDirectoryBytes = uint64_t{1} << 32;
constexpr size_t kEndBytes = 22;          // of the end record without its comment
constexpr size_t kEnd64Bytes = 56;        // of the Zip64 end record
constexpr size_t kLocatorBytes = 20;      // of what says where that lies
constexpr size_t kEntryBytes = 46;        // of an entry before its name
constexpr size_t kLocalHeaderBytes = 30;  // of the header before a content, before its name
constexpr uint64_t kIn64 = 0xffffffff;    // the number stands in the Zip64 field

// Numbers and texts of the archive's records.
class Fields : public LittleEndian {
 public:
  using LittleEndian::LittleEndian;

  bool begins(size_t at, std::string_view signature) const {
    return at <= bytes().size() && bytes().substr(at, signature.size()) == signature;
  }
  std::string_view part(size_t at, size_t count) const {
    return at <= bytes().size() ? bytes().substr(at, count) : std::string_view();
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

std::optional<int64_t> content_offset(const RandomAccessFile& file, const ZipEntry& entry) {
  // The local header has an extra field of its own, whose length stands only there.
  char header[kLocalHeaderBytes];
  if (file.read(entry.header, header, sizeof(header)) != sizeof(header)) return std::nullopt;
  const Fields fields(std::string_view(header, sizeof(header)));
  if (!fields.begins(0, "PK\3\4")) return std::nullopt;
  const auto behind = static_cast<int64_t>(kLocalHeaderBytes + fields.u16(26) + fields.u16(28));
  return entry.header + behind;
}

bool read_stored(const RandomAccessFile& file, const ZipEntry& entry, std::string& content) {
  const std::optional<int64_t> offset = content_offset(file, entry);
  if (!offset) return false;
  content.resize(static_cast<size_t>(entry.size));
  if (file.read(*offset, content.data(), content.size()) != content.size()) return false;
  const auto* bytes = reinterpret_cast<const Bytef*>(content.data());
  return crc32_z(0, bytes, content.size()) == entry.checksum;
}

}  // namespace gantrain
