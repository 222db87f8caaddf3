// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <archive.h>

#include <memory>
#include <string>
#include <vector>

#include "data/random_access_file.h"

namespace gantrain {

// What libarchive reads from. It reads and skips by the functions below, whose `data` is an
// ArchiveInput.
struct ArchiveInput {
  const FilePart& part;
  std::vector<char> block;  // as long as the pieces that are read at once
  int64_t at = 0;           // in the part
  std::string failed = {};  // the message of a read that failed
};
la_ssize_t read_archive_input(archive* reader, void* data, const void** out);
la_int64_t skip_archive_input(archive* reader, void* data, la_int64_t count);

struct FreeArchiveReader {
  void operator()(archive* reader) const { archive_read_free(reader); }
};
using ArchiveReader = std::unique_ptr<archive, FreeArchiveReader>;

}  // namespace gantrain
