// SPDX-License-Identifier: Apache-2.0
#include "util/cache_folder.h"

#include <cstdlib>

namespace gantrain {

namespace {

std::filesystem::path variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::filesystem::path cache_folder(const std::string& kind) {
  if (const auto own = variable("GANTRAIN_CACHE_DIR"); !own.empty()) return own / kind;
  if (const auto xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg / "gantrain" / kind;
  const std::filesystem::path home = variable("HOME");
  return home.empty() ? "" : home / ".cache" / "gantrain" / kind;
}

}  // namespace gantrain
