// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gantrain {

struct FilePart;

// What tells two contents of a file apart, although not all of it may have been read.
struct FileMark {
  int64_t bytes = 0;
  std::string hash;  // "xxh3:..." by mark_of(), "crc32:..." where an archive's directory has it

  bool operator==(const FileMark&) const = default;
};

// Hash a content of up to 4 MiB, which most pictures are, and of a larger one the size and the
// first and last 64 KiB. Both give the same for the same content. The second throws
// UserError(kInput) that names the file.
FileMark mark_of(std::string_view content);
FileMark mark_of(const FilePart& part);

// Returns the mark of a content whose size and CRC-32 are known.
FileMark mark_of_checksum(int64_t bytes, uint32_t checksum);

// Returns a file's size, inode and time of last change (POSIX ctime, which no program can set) as a
// text; "" where the file system does not tell. Copies and touched files have another one.
std::string stamp_of(const std::string& path);

}  // namespace gantrain
