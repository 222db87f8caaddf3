// SPDX-License-Identifier: Apache-2.0
#include "util/system.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>

#include "util/text.h"

namespace gantrain {

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

int64_t usable_cores() {
  // Machines with more than 1024 cores need a larger mask than cpu_set_t.
  for (int capacity = CPU_SETSIZE; capacity <= 1 << 20; capacity *= 4) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(capacity));
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(capacity));
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    const int64_t count = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (known) return std::max<int64_t>(count, 1);
  }
  return 1;
}

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
