// SPDX-License-Identifier: Apache-2.0
#include "util/program.h"

#include <unistd.h>

#include <cstdlib>
#include <system_error>

#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

fs::path find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::error_code error;
  for (const std::string& folder : split(path == nullptr ? "" : path, ':')) {
    const fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
    if (fs::is_regular_file(candidate, error) && ::access(candidate.c_str(), X_OK) == 0)
      return candidate;
  }
  return {};
}

}  // namespace gantrain
