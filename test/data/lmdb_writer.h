// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gantrain {

// Writes the entries with LMDB's own library into the folder, as data.mdb and lock.mdb, in
// transactions of at most `batch` entries.
void write_lmdb(const std::string& folder,
                const std::vector<std::pair<std::string, std::string>>& entries,
                size_t batch = 1000);

}  // namespace gantrain
