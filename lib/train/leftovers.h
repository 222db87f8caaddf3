// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

namespace gantrain {

// What killed sessions leave in a run folder, and what becomes of it when the next one begins. Both
// want the folder's lock to be held.

// Removes the temporary files of writers that were killed (util/file.h, AtomicFile) from the
// folder, its samples and its errors. Returns how many.
int64_t remove_temporary_files(const std::filesystem::path& folder);

// Moves the rows of stats.jsonl and metric-*.jsonl that tell of more than `images` images seen to
// the files superseded-stats.jsonl and so on, and with them a last line that is no whole row: they
// belong to a history that the run leaves behind and trains anew. Returns how many. Throws
// UserError(kDisk).
int64_t set_rows_aside(const std::filesystem::path& folder, int64_t images);

}  // namespace gantrain
