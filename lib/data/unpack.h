// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "data/dataset.h"
#include "data/random_access_file.h"

namespace gantrain {

// Whether a content begins as gzip, zstd, xz or bzip2 do.
bool is_compressed(std::string_view start);

// Returns the part itself, or its unpacked content where it is compressed. That lies in a temporary
// file without a name, in $TMPDIR or else /var/tmp or /tmp, so that every thread and forked process
// can read it at any place and nothing of it outlives them. It takes constant memory. Throws
// UserError(kInput) where the content is damaged, cut off, or so much larger than what it was
// packed to that it can be no data, UserError(kDisk) where the temporary file does not fit, and
// UserError(kStopped) where `stop` returns true.
FilePart unpacked(const FilePart& part, const StopCheck& stop = {});

}  // namespace gantrain
