// SPDX-License-Identifier: Apache-2.0
#include "util/resolutions.h"

#include <fmt/format.h>

namespace gantrain {

std::string by_resolution(const std::vector<int64_t>& numbers) {
  std::string text;
  for (size_t i = 0; i + 1 < numbers.size(); ++i) {
    if (numbers[i] != numbers.back()) text += fmt::format("{}:{},", 4 << i, numbers[i]);
  }
  return fmt::format("{}{}", text, numbers.back());
}

}  // namespace gantrain
