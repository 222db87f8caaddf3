// SPDX-License-Identifier: Apache-2.0
#include "exchange/python_source.h"

#include <map>
#include <vector>

namespace gantrain {

std::string python_program(const std::string& recipe) {
  static const std::map<std::string, std::vector<std::string>> parts = {
      {"dcgan", {"base", "dcgan", "command"}},
      {"pggan", {"base", "growing", "pggan", "command"}},
      {"stylegan1", {"base", "growing", "stylegan1", "command"}},
      {"stylegan2", {"base", "style", "stylegan2", "command"}},
      {"stylegan3", {"base", "style", "stylegan3", "command"}},
      {"r3gan", {"base", "r3gan", "command"}},
  };
  const auto found = parts.find(recipe);
  if (found == parts.end()) return "";
  std::string program;
  for (const std::string& part : found->second) {
    std::string_view text = python_source(part);
    // The line with the licence stands once, at the top.
    if (!program.empty()) text.remove_prefix(text.find('\n') + 1);
    program += (program.empty() ? "" : "\n\n") + std::string(text);
  }
  return program;
}

}  // namespace gantrain
