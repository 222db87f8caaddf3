// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "config/config.h"
#include "inspect_content.h"
#include "page/run_record.h"
#include "train/run_folder.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

Json names_of(const std::vector<NumberedFile>& files) {
  Json names = Json::array();
  for (const NumberedFile& file : files) names.push_back(file.path.filename().string());
  return names;
}

// The results of the last line of each metric-*.jsonl, with its kimg. A line may be half written.
Json last_metrics(const fs::path& folder) {
  Json all = Json::object();
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (starts_with(name, "metric-") && ends_with(name, ".jsonl")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    for (const std::string& line : split(read_file(file), '\n')) {
      const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!row.is_object() || !row.contains("results") || !row["results"].is_object()) continue;
      for (const auto& [name, value] : row["results"].items()) {
        all[name] = {{"value", value}, {"kimg", row.value("kimg", Json())}};
      }
    }
  }
  return all;
}

uintmax_t size_on_disk(const fs::path& folder) {
  uintmax_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (!at->is_regular_file(error)) continue;
    const uintmax_t size = at->file_size(error);  // a run at work may have removed the file
    if (!error) bytes += size;
    error.clear();
  }
  return bytes;
}

}  // namespace

bool is_run(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "config.json", error) &&
         (fs::is_regular_file(folder / "STATUS", error) ||
          fs::is_regular_file(folder / "stats.jsonl", error));
}

FileContent read_run(const fs::path& folder) {
  FileContent content = read_content(folder / "config.json");
  content.kind = "run";
  const bool at_work = may_be_at_work(folder);
  const std::string status = trim(read_status(folder));
  content.facts["status"] =
      status == "running" && !at_work ? "running, says STATUS; nobody is at work" : status;
  const std::vector<NumberedFile> models = find_models(folder);
  content.facts["models"] = names_of(models);
  content.facts["states"] = names_of(find_states(folder));
  content.facts["metrics"] = last_metrics(folder);
  if (!models.empty()) {
    FileContent newest;
    read_model_file(models.front().path, newest);
    content.facts["newest"] = models.front().path.filename().string();
    content.facts["newest_facts"] = newest.facts;
    content.tensors = std::move(newest.tensors);
  }
  content.facts["bytes"] = size_on_disk(folder);
  return content;
}

}  // namespace gantrain
