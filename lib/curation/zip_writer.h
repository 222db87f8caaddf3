// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gantrain {

// Parts of a zip archive whose entries are stored, not compressed (PKWARE's APPNOTE 6.3). Zip64 is
// used where a number needs it. All times are 1980-01-01, so that the same entries are the same
// bytes.

// An entry as the archive's directory describes it.
struct StoredEntry {
  std::string name;       // with '/', ASCII or UTF-8
  uint64_t size = 0;      // bytes
  uint32_t checksum = 0;  // CRC-32
  uint64_t header = 0;    // where its local header begins
};

// Returns the CRC-32 of a content.
uint32_t checksum_of(std::string_view content);

// Returns what stands before an entry's content. Throws std::invalid_argument for a content of 4
// GiB or more.
std::string local_header(const StoredEntry& entry);

// Returns what stands behind the last content, which ends at `offset`.
std::string central_directory(const std::vector<StoredEntry>& entries, uint64_t offset);

}  // namespace gantrain
