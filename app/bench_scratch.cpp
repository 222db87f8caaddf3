// SPDX-License-Identifier: Apache-2.0
#include "bench_scratch.h"

#include <cstdlib>

#include "util/error.h"

namespace gantrain {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder(const fs::path& parent) {
  const fs::path folder = parent.empty() ? fs::temp_directory_path() : parent;
  std::string name = (folder / "gantrain-bench-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) fail(Exit::kDisk, "cannot make {}: {}", name, errno_text());
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace gantrain
