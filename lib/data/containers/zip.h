// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/containers/source.h"

namespace gantrain {

// An entry of a zip archive as the archive's central directory describes it.
struct ZipEntry {
  std::string name;       // as it stands there
  int64_t header = 0;     // bytes before the local header, behind which the content lies
  int64_t size = 0;       // bytes of the content
  uint32_t checksum = 0;  // CRC-32 of the content
  bool stored = false;    // the content stands there as it is, neither compressed nor encrypted
};

// Reads the central directory (PKWARE's APPNOTE 6.3, sec. 4.3.12 to 4.3.16, with Zip64). Returns
// nothing where it is not of the plain kind that zip programs write, in one piece from the start of
// the file; libzip must look at the archive then. Throws UserError(kInput) if it cannot be read.
std::vector<ZipEntry> read_zip_directory(const RandomAccessFile& file);

// Returns how many bytes lie before the content of a stored entry; nothing where the local header
// is not there.
std::optional<int64_t> content_offset(const RandomAccessFile& file, const ZipEntry& entry);

// Reads the content of a stored entry. Returns false where the archive is not as its directory
// says: cut off, overwritten, or of another checksum. Throws UserError(kInput) as read() does.
bool read_stored(const RandomAccessFile& file, const ZipEntry& entry, std::string& content);

}  // namespace gantrain
