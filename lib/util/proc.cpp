// SPDX-License-Identifier: Apache-2.0
#include "util/proc.h"

#include <fstream>

#include "util/text.h"

namespace gantrain {

std::string proc_value(const std::string& file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos && trim(line.substr(0, colon)) == key)
      return trim(line.substr(colon + 1));
  }
  return "";
}

int64_t proc_bytes(const std::string& file, const std::string& key) {
  const std::string value = proc_value(file, key);
  return 1024 * parse_int(value.substr(0, value.find(' '))).value_or(0);
}

}  // namespace gantrain
