// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/containers/source.h"

namespace gantrain {

// An entry of an LMDB's main database and where its value lies in the file.
struct LmdbEntry {
  std::string key;
  int64_t offset = 0;
  int64_t size = 0;
};

// Whether a content begins as an LMDB's data file does. 24 bytes are enough.
bool is_lmdb(std::string_view start);

// Reads all keys of the newest committed state of an LMDB, in their order. Throws UserError(kInput)
// that names the file where it is cut off or damaged, or holds something else than plain values.
std::vector<LmdbEntry> read_lmdb(const FilePart& file);

// Opens the encoded pictures of an LMDB: all values, as in LSUN's, or, where keys are
// "RESOLUTION-NUMBER" beside a key "length", as in the widely used StyleGAN2 port's, those of one
// size: options.resolution's longer side, else the next larger one, else the largest. Throws
// UserError(kInput) that names the file.
std::unique_ptr<Source> open_lmdb(const FilePart& file, const DataOptions& options);

}  // namespace gantrain
