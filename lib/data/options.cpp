// SPDX-License-Identifier: Apache-2.0
#include "data/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "util/text.h"

namespace gantrain {

namespace {

// The name of an archive without ".zip" or ".tar.gz".
std::string without_endings(std::filesystem::path name) {
  for (const auto& endings : {std::vector<std::string>{".gz", ".zst", ".xz", ".bz2"},
                              std::vector<std::string>{".zip", ".tar", ".tgz"}}) {
    const std::string ending = lower(name.extension().string());
    if (std::find(endings.begin(), endings.end(), ending) != endings.end()) name = name.stem();
  }
  return name.string();
}

}  // namespace

std::string short_name(const DataOptions& options) {
  std::string name;
  if (starts_with(options.path, "synth:")) {
    name = options.path.substr(std::string_view("synth:").size());
  } else {
    std::filesystem::path path = std::filesystem::path(options.path).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();  // "photos/"
    name = without_endings(path.filename());
  }
  for (char& c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!plain && c != '-' && c != '_') c = '_';
  }
  if (name.empty()) name = "data";
  const bool digit = name.back() >= '0' && name.back() <= '9';
  return fmt::format("{}{}{}", name, digit ? "-" : "", to_text(options.resolution));
}

}  // namespace gantrain
