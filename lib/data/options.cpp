// SPDX-License-Identifier: Apache-2.0
#include "data/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// The name of an archive without ".zip" or ".tar.gz".
std::string without_endings(std::filesystem::path name) {
  for (const auto& endings : {std::vector<std::string>{".gz", ".zst", ".xz", ".bz2"},
                              std::vector<std::string>{".zip", ".tar", ".tgz"}}) {
    const std::string ending = lower(name.extension().string());
    if (std::ranges::find(endings, ending) != endings.end()) name = name.stem();
  }
  return name.string();
}

constexpr int64_t kMostForFiles = 8;
constexpr int64_t kMostForShapes = 2;

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

int64_t choose_workers(const DataOptions& options, const LoadingMachine& machine) {
  if (options.workers) return *options.workers;
  const int64_t most = starts_with(options.path, "synth:") ? kMostForShapes : kMostForFiles;
  const int64_t share = machine.cores / std::max<int64_t>(machine.ranks, 1);
  return std::clamp<int64_t>(share - machine.computing, 1, most);
}

std::string workers_text(const DataOptions& options, const LoadingMachine& machine) {
  if (options.workers) return "";
  return fmt::format("auto    data.workers {}: {}, {} here, {} a rank to compute with",
                     choose_workers(options, machine),
                     counted(machine.cores, "core"),
                     counted(machine.ranks, "rank"),
                     counted(machine.computing, "thread"));
}

}  // namespace gantrain
