// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/value.h"

namespace gantrain {

// One curve: pairs (kimg, value) with rising kimg.
using Curve = std::vector<std::pair<double, double>>;

// Reads the curves of a run folder's stats.jsonl by name: the means over Progress/kimg. Where a
// resumed run has rows twice, the later rows are used. Broken lines are skipped.
std::map<std::string, Curve> read_stats(const std::filesystem::path& run_folder);

// Reads the curves of metric-*.jsonl by the name of the result ("swd", "pr/recall"), over the
// line's "kimg" or else the number in its "snapshot". Results of different recipes (the line's
// "recipe": numbers of pictures, detector, seed) cannot be compared: those of the file's first one
// have the plain name, and others curves of their own, "fid (50000 fakes)".
std::map<std::string, Curve> read_metrics(const std::filesystem::path& run_folder);

// Returns how far the training was, in kimg, as a line of stats.jsonl or of metric-*.jsonl tells
// it; nothing if the line is no whole row, or does not tell it.
std::optional<double> kimg_of_line(const std::string& line);

// Returns the last row of a folder's metric-NAME.jsonl; null where there is no whole one.
Json newest_metric(const std::filesystem::path& folder, const std::string& name);

// Returns the first number in the name of a file: 200.16 of "model-000200.160.safetensors".
std::optional<double> kimg_in_name(const std::string& name);

// How a rank ended, as errors/rank<k>.json tells it. What the file does not say is empty.
struct RankEnd {
  int64_t rank = 0;
  std::string message, host, phase, last_state, resume, stack;
  std::optional<int64_t> iteration, exit_code, signal;
  std::optional<double> kimg;
  bool first_cause = false;
};

// A key of config.json.
struct Setting {
  std::string key, value, origin;
};

// What a line of log.txt, or a file that was set aside, tells of a run that did not go smoothly.
struct Incident {
  std::string time;  // "2026-01-12 09:14:31", "" if it is not known
  std::string text;
  bool is_error = false;
};

// What the files of a run folder say. The folder may be a stranger's: what is missing, broken, too
// large, or not a regular file (a link to one, a pipe) is left empty, and nothing is waited for.
struct RunRecord {
  std::filesystem::path folder;
  std::string name;           // the folder's own
  std::string status;         // the line of STATUS
  bool at_work = true;        // false: the folder's lock is free, so no process trains there
  std::vector<RankEnd> ends;  // the first cause first
  std::vector<Setting> settings;
  std::vector<std::string> classes;  // by label; empty for unconditional models
  Json environment;                  // env.json
  std::string command;               // command.txt
  std::string next;                  // what the last line of log.txt says can be run next
  std::vector<Incident> incidents;   // by time
  std::vector<double> resumes;       // kimg at which a session went on
  std::map<std::string, Curve> stats, metrics;
};

// Reads a run folder. It never throws for what it finds there.
RunRecord read_run_record(const std::filesystem::path& folder);

// Whether the folder holds the files of a run: config.json, STATUS or stats.jsonl.
bool is_run_folder(const std::filesystem::path& folder);

// Throws UserError(kInput) where it does not.
void require_run_folder(const std::filesystem::path& folder);

// Whether a process may be training in the folder: a run holds the folder's lock while it is at
// work. A folder without a lock tells nothing, so it may.
bool may_be_at_work(const std::filesystem::path& folder);

// The text of a setting, "" if there is none of that key.
std::string setting(const RunRecord& run, const std::string& key);
// The same as a number.
std::optional<double> number_setting(const RunRecord& run, const std::string& key);

// The curve of that name; null where there is none, or nothing in it.
const Curve* find_curve(const std::map<std::string, Curve>& curves, const std::string& name);
// The last value of a curve, where there is one.
std::optional<double> last_of(const std::map<std::string, Curve>& curves, const std::string& name);

// The files and folders in a folder whose names begin and end so, in the order of their names; none
// where there is no folder. Of very many the first ones are returned.
std::vector<std::filesystem::path> paths_in(const std::filesystem::path& folder,
                                            std::string_view prefix,
                                            std::string_view suffix);

// A folder inside a run's; one that does not exist where that is a link, which may lead to files of
// somebody else.
std::filesystem::path folder_in(const std::filesystem::path& run_folder, const char* name);

// Fills run.incidents, run.resumes and run.next: resumes, restarts, warnings and errors of log.txt,
// errors of the other ranks' logs, failures of earlier sessions (errors/earlier-*), and what a run
// has left behind (superseded-*). Of very many incidents the first and the last ones are kept.
void read_incidents(const std::filesystem::path& folder, RunRecord& run);

}  // namespace gantrain
