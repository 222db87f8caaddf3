// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "data/containers/source.h"
#include "fuzz/fuzz_input.h"

namespace gantrain {

// Reads what a source has, as a data set would: names, and the contents of the first files.
inline void read_source(const Source& source, std::string_view name) {
  constexpr size_t kMostFiles = 64;
  const std::vector<std::string>& files = source.files();
  require(std::is_sorted(files.begin(), files.end()), "files are not in the order of their names");
  std::string bytes;
  for (size_t i = 0; i < std::min(files.size(), kMostFiles); ++i) {
    require(!is_hidden(files[i]), "a hidden file");
    accepts(name, [&] { source.read(i, bytes); });
  }
}

}  // namespace gantrain
