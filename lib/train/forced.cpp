// SPDX-License-Identifier: Apache-2.0
#include "train/forced.h"

#include <algorithm>

#include "util/text.h"

namespace gantrain {

bool is_forced(const std::string& force, const std::string& what) {
  const std::vector<std::string> forced = split(force, ',');
  return std::any_of(
      forced.begin(), forced.end(), [&](const std::string& f) { return f == what || f == "all"; });
}

}  // namespace gantrain
