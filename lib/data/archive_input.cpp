// SPDX-License-Identifier: Apache-2.0
#include "data/archive_input.h"

#include <algorithm>

#include "util/error.h"

namespace gantrain {

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

}  // namespace gantrain
