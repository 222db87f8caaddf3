// SPDX-License-Identifier: Apache-2.0
#include "curation/zip_writer.h"

#include <zlib.h>

#include <algorithm>
#include <stdexcept>

namespace gantrain {

namespace {

constexpr uint64_t kMax16 = 0xffff;
constexpr uint64_t kMax32 = 0xffffffff;
constexpr uint16_t kVersion = 20;       // that a reader needs: 2.0
constexpr uint16_t kVersion64 = 45;     // 4.5: Zip64
constexpr uint16_t kUtf8 = 1 << 11;     // flag: the name is UTF-8
constexpr uint16_t kDate = 1 << 5 | 1;  // 1980-01-01

// Little-endian numbers, one behind the other.
class Record {
 public:
  Record& text(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  Record& u16(uint64_t value) { return number(value, 2); }
  Record& u32(uint64_t value) { return number(value, 4); }
  Record& u64(uint64_t value) { return number(value, 8); }
  const std::string& bytes() const { return bytes_; }

 private:
  Record& number(uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }

  std::string bytes_;
};

uint16_t flags_of(const std::string& name) {
  const bool ascii = std::all_of(
      name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  return ascii ? 0 : kUtf8;
}

std::string directory_entry(const StoredEntry& entry) {
  const bool far = entry.header >= kMax32;
  Record extra;
  if (far) extra.u16(1).u16(8).u64(entry.header);  // the Zip64 field
  Record record;
  record.text("PK\1\2").u16(3 << 8 | (far ? kVersion64 : kVersion));  // made on Unix
  record.u16(far ? kVersion64 : kVersion).u16(flags_of(entry.name));
  record.u16(0).u16(0).u16(kDate).u32(entry.checksum);  // stored; time; date
  record.u32(entry.size).u32(entry.size);
  record.u16(entry.name.size()).u16(extra.bytes().size()).u16(0).u16(0).u16(0);
  record.u32(uint64_t{0100644} << 16);  // a file that all may read
  record.u32(std::min(entry.header, kMax32)).text(entry.name).text(extra.bytes());
  return record.bytes();
}

}  // namespace

uint32_t checksum_of(std::string_view content) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
}

std::string local_header(const StoredEntry& entry) {
  if (entry.size >= kMax32) throw std::invalid_argument("zip: an entry of 4 GiB: " + entry.name);
  Record record;
  record.text("PK\3\4").u16(kVersion).u16(flags_of(entry.name)).u16(0).u16(0).u16(kDate);
  record.u32(entry.checksum).u32(entry.size).u32(entry.size);
  record.u16(entry.name.size()).u16(0).text(entry.name);
  return record.bytes();
}

std::string central_directory(const std::vector<StoredEntry>& entries, uint64_t offset) {
  Record record;
  for (const StoredEntry& entry : entries) record.text(directory_entry(entry));
  const uint64_t size = record.bytes().size();
  const uint64_t count = entries.size();
  if (count >= kMax16 || size >= kMax32 || offset >= kMax32) {
    constexpr uint64_t kRecordBytes = 44;  // of the Zip64 end record behind this number
    record.text("PK\6\6").u64(kRecordBytes).u16(3 << 8 | kVersion64).u16(kVersion64);
    record.u32(0).u32(0).u64(count).u64(count).u64(size).u64(offset);
    record.text("PK\6\7").u32(0).u64(offset + size).u32(1);  // where that record lies
  }
  record.text("PK\5\6").u16(0).u16(0).u16(std::min(count, kMax16)).u16(std::min(count, kMax16));
  record.u32(std::min(size, kMax32)).u32(std::min(offset, kMax32)).u16(0);
  return record.bytes();
}

}  // namespace gantrain
