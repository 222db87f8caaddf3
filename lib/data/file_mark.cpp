// SPDX-License-Identifier: Apache-2.0
#include "data/file_mark.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "data/random_access_file.h"
#include "data/source.h"
#include "util/hash.h"

namespace gantrain {

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

}  // namespace gantrain
