// SPDX-License-Identifier: Apache-2.0
#include "serve/run_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "page/run_record.h"
#include "page/summary.h"
#include "util/hash.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

constexpr int kDeepest = 4;
constexpr size_t kMostEntries = 50'000;  // looked at; a data set may lie among the runs

std::optional<double> seconds_of(const fs::path& path) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  if (error) return std::nullopt;
  const auto age = fs::file_time_type::clock::now() - time;
  return unix_seconds() - std::chrono::duration<double>(age).count();
}

std::string state_of(const RunRecord& run) {
  const std::string word = run.status.substr(0, run.status.find(' '));
  if (word == "running") return run.at_work ? "running" : "dead";
  for (const char* known : {"done", "stopped", "failed", "ended"}) {
    if (word == known) return word;
  }
  return "unknown";
}

}  // namespace

std::vector<FoundRun> find_runs(const fs::path& root) {
  std::error_code error;
  if (is_run_folder(root)) {
    const fs::path whole = fs::canonical(root, error);
    return {{(error ? root : whole).filename(), root}};
  }
  std::vector<FoundRun> runs;
  const auto options = fs::directory_options::skip_permission_denied;
  size_t seen = 0;
  for (auto at = fs::recursive_directory_iterator(root, options, error);
       !error && at != fs::recursive_directory_iterator() && seen < kMostEntries;
       at.increment(error), ++seen) {
    std::error_code gone;
    if (!at->is_directory(gone) || at->is_symlink(gone)) continue;
    const bool hidden = starts_with(at->path().filename().string(), ".");
    const bool is_run = !hidden && is_run_folder(at->path());
    if (is_run) runs.push_back({at->path().lexically_relative(root), at->path()});
    if (is_run || hidden || at.depth() + 1 >= kDeepest) at.disable_recursion_pending();
  }
  std::sort(runs.begin(), runs.end(), [](const FoundRun& a, const FoundRun& b) {
    return a.name < b.name;
  });
  return runs;
}

RunView view_of(const FoundRun& found) {
  const RunRecord run = read_run_record(found.folder);
  RunView view;
  view.name = found.name;
  view.folder = found.folder;
  view.status = run.status;
  view.state = state_of(run);
  view.verdict = judge(run).front();
  view.kimg = last_of(run.stats, "Progress/kimg");
  view.target_kimg = number_setting(run, "train.kimg");
  view.images_per_second = images_per_second(run);
  view.seconds_to_go = seconds_to_go(run);
  view.last_tick = seconds_of(found.folder / "stats.jsonl");
  for (const auto& [name, curve] : run.stats) {
    if (starts_with(name, "Loss/") && !curve.empty())
      view.losses[name.substr(5)] = curve.back().second;
  }
  for (const auto& [name, curve] : run.metrics) {
    if (!curve.empty()) view.metrics[name] = curve.back();
  }
  return view;
}

std::string stamp_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files = {folder / "STATUS", folder / "samples/latest.png"};
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string extension = entry.path().extension();
    if (extension == ".jsonl" || extension == ".json" || extension == ".txt")
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::string stamp;
  for (const fs::path& file : files) {
    std::error_code missing;
    const auto time = fs::last_write_time(file, missing).time_since_epoch().count();
    const auto size = missing ? 0 : fs::file_size(file, missing);
    if (!missing) stamp += fmt::format("{:x}.{:x}-", time, size);
  }
  return fmt::format("{:016x}", hash64(stamp));  // short enough for a URL
}

}  // namespace gantrain
