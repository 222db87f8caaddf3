// SPDX-License-Identifier: Apache-2.0
#include "launch/laggard.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <tuple>

namespace gantrain {

bool is_behind(const RankProgress& a, const RankProgress& b) {
  if (a.stopped != b.stopped) return a.stopped;
  return std::tie(a.collectives, a.iteration) < std::tie(b.collectives, b.iteration);
}

size_t furthest_behind(const std::vector<RankProgress>& ranks) {
  const auto worst = std::min_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    if (is_behind(a, b) || is_behind(b, a)) return is_behind(a, b);
    return a.heartbeat_ns < b.heartbeat_ns;
  });
  return static_cast<size_t>(worst - ranks.begin());
}

bool is_stopped(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return false;
  const size_t name_ends = text.rfind(')');  // the name itself may hold brackets and spaces
  if (name_ends == std::string::npos || name_ends + 2 >= text.size()) return false;
  return text[name_ends + 2] == 'T' || text[name_ends + 2] == 't';
}

}  // namespace gantrain
