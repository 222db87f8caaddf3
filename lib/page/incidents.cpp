// SPDX-License-Identifier: Apache-2.0
#include "page/incidents.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>

#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostIncidents = 200;
constexpr size_t kLongest = 400;    // bytes of one incident's text
constexpr size_t kTimeLength = 19;  // "2026-01-12 09:14:31"

struct LogLine {
  std::string time, text;
};

// A line of a log; without a time it belongs to the line before.
LogLine parse_line(const std::string& line) {
  const bool timed = line.size() > kTimeLength && line[4] == '-' && line[10] == ' ' &&
                     line[13] == ':' && line[kTimeLength] == ' ';
  if (!timed) return {"", line};
  return {line.substr(0, kTimeLength), line.substr(kTimeLength + 1)};
}

// At most kLongest bytes, cut between two characters of UTF-8.
std::string shortened(const std::string& text) {
  if (text.size() <= kLongest) return text;
  size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + " ...";
}

bool is_incident(const std::string& text) {
  constexpr std::array<std::string_view, 8> kBeginnings = {"warning ",
                                                           "error   ",
                                                           "resume ",
                                                           "STOP ",
                                                           "SAVE ",
                                                           "starting the ranks",
                                                           "stopped ",
                                                           "failed twice"};
  return std::any_of(kBeginnings.begin(), kBeginnings.end(), [&](std::string_view beginning) {
    return starts_with(text, beginning);
  });
}

// 12.5 of "resume  at 12.5 kimg (state-000012.500.pt)".
std::optional<double> resumed_at(const std::string& text) {
  constexpr std::string_view kBeginning = "resume  at ";
  if (!starts_with(text, kBeginning)) return std::nullopt;
  const std::string rest = text.substr(kBeginning.size());
  return parse_double(rest.substr(0, rest.find(' ')));
}

void read_log(const fs::path& path, const std::string& prefix, RunRecord& run) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const LogLine parsed = parse_line(line);
    constexpr std::string_view kNext = "next    ";
    if (starts_with(parsed.text, kNext)) run.next = parsed.text.substr(kNext.size());
    if (const auto kimg = resumed_at(parsed.text)) run.resumes.push_back(*kimg);
    if (parsed.time.empty() || !is_incident(parsed.text)) continue;
    run.incidents.push_back(
        {parsed.time, prefix + shortened(parsed.text), starts_with(parsed.text, "error ")});
  }
}

// "3 files: superseded-..., ..." of what the run has left behind.
void read_superseded(const fs::path& folder, RunRecord& run) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename();
    if (starts_with(name, "superseded-")) names.push_back(name);
  }
  if (names.empty()) return;
  std::sort(names.begin(), names.end());
  run.incidents.push_back(
      {"",
       shortened(fmt::format("{} files of a history that the run has left behind: {}",
                             names.size(),
                             join(names, ", "))),
       false});
}

void read_earlier_failures(const fs::path& folder, RunRecord& run) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const fs::directory_entry& session : fs::directory_iterator(folder / "errors", ignored)) {
    if (!starts_with(session.path().filename().string(), "earlier-")) continue;
    for (const fs::directory_entry& entry : fs::directory_iterator(session.path(), ignored))
      files.push_back(fs::relative(entry.path(), folder, ignored).string());
  }
  if (files.empty()) return;
  std::sort(files.begin(), files.end());
  run.incidents.push_back(
      {"", shortened("failures of earlier sessions: " + join(files, ", ")), false});
}

void keep_ends(std::vector<Incident>& incidents) {
  if (incidents.size() <= kMostIncidents) return;
  const size_t left_out = incidents.size() - kMostIncidents;
  const auto first = incidents.begin() + kMostIncidents / 2;
  *first = {"", fmt::format("... {} more, which the logs have ...", left_out + 1), false};
  incidents.erase(first + 1, first + 1 + static_cast<std::ptrdiff_t>(left_out));
}

}  // namespace

void read_incidents(const fs::path& folder, RunRecord& run) {
  read_log(folder / "log.txt", "", run);
  const std::string next = run.next;
  const std::vector<double> resumes = run.resumes;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().stem();
    if (starts_with(name, "log-rank") && entry.path().extension() == ".txt")
      read_log(entry.path(), "[rank " + name.substr(8) + "] ", run);
  }
  run.next = next;
  run.resumes = resumes;
  std::stable_sort(run.incidents.begin(),
                   run.incidents.end(),
                   [](const Incident& a, const Incident& b) { return a.time < b.time; });
  keep_ends(run.incidents);
  read_superseded(folder, run);
  read_earlier_failures(folder, run);
}

}  // namespace gantrain
