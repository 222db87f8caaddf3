// SPDX-License-Identifier: Apache-2.0
#include "data/options.h"

#include <fmt/format.h>

#include <filesystem>

#include "util/text.h"

namespace gantrain {

std::string short_name(const DataOptions& options) {
  std::string name;
  if (starts_with(options.path, "synth:")) {
    name = options.path.substr(std::string_view("synth:").size());
  } else {
    std::filesystem::path path = std::filesystem::path(options.path).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();  // "photos/"
    name = lower(path.extension().string()) == ".zip" ? path.stem().string()
                                                      : path.filename().string();
  }
  for (char& c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!plain && c != '-' && c != '_') c = '_';
  }
  if (name.empty()) name = "data";
  const bool digit = name.back() >= '0' && name.back() <= '9';
  return fmt::format("{}{}{}", name, digit ? "-" : "", options.resolution);
}

}  // namespace gantrain
