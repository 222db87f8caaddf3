// SPDX-License-Identifier: Apache-2.0
#include "data/workers.h"

#include <fmt/format.h>

#include <algorithm>

#include "util/text.h"

namespace gantrain {

namespace {

constexpr int64_t kMostForFiles = 8;
constexpr int64_t kMostForShapes = 2;

}  // namespace

int64_t choose_workers(const DataOptions& options, const LoadingMachine& machine) {
  if (options.workers) return *options.workers;
  const int64_t most = starts_with(options.path, "synth:") ? kMostForShapes : kMostForFiles;
  const int64_t share = machine.cores / std::max<int64_t>(machine.ranks, 1);
  return std::clamp<int64_t>(share - machine.computing, 1, most);
}

std::string workers_text(const DataOptions& options, const LoadingMachine& machine) {
  if (options.workers) return "";
  const auto counted = [](int64_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  return fmt::format("auto    data.workers {}: {}, {} here, {} a rank to compute with",
                     choose_workers(options, machine),
                     counted(machine.cores, "core"),
                     counted(machine.ranks, "rank"),
                     counted(machine.computing, "thread"));
}

}  // namespace gantrain
