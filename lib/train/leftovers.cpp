// SPDX-License-Identifier: Apache-2.0
#include "train/leftovers.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "page/run_log.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_regular_file(error)) files.push_back(entry.path());
  }
  return files;
}

// "state-000200.pt.tmp4711"
bool is_temporary(const std::string& name) {
  const size_t mark = name.rfind(".tmp");
  if (mark == std::string::npos || mark == 0 || mark + 4 == name.size()) return false;
  return std::all_of(name.begin() + static_cast<std::ptrdiff_t>(mark) + 4,
                     name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool is_later(const std::string& line, int64_t images) {
  const auto kimg = kimg_of_line(line);
  return !kimg || *kimg * 1e3 > static_cast<double>(images) + 0.5;
}

int64_t set_aside_of(const fs::path& file, int64_t images) {
  std::string kept, later;
  for (const std::string& line : split(read_file(file), '\n')) {
    if (!line.empty()) (is_later(line, images) ? later : kept) += line + "\n";
  }
  if (later.empty()) return 0;
  append_line(file.parent_path() / ("superseded-" + file.filename().string()), trim(later));
  write_file(file, kept);
  return std::count(later.begin(), later.end(), '\n');
}

}  // namespace

int64_t remove_temporary_files(const fs::path& folder) {
  int64_t removed = 0;
  std::error_code error;
  for (const fs::path& where : {folder, folder / "samples", folder / "errors"}) {
    for (const fs::path& file : files_in(where)) {
      if (is_temporary(file.filename())) removed += fs::remove(file, error) ? 1 : 0;
    }
  }
  return removed;
}

int64_t set_rows_aside(const fs::path& folder, int64_t images) {
  int64_t rows = 0;
  for (const fs::path& file : files_in(folder)) {
    const std::string name = file.filename();
    const bool has_rows =
        name == "stats.jsonl" || (starts_with(name, "metric-") && ends_with(name, ".jsonl"));
    if (has_rows) rows += set_aside_of(file, images);
  }
  return rows;
}

}  // namespace gantrain
