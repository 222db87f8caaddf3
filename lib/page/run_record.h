// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/value.h"
#include "page/run_log.h"

namespace gantrain {

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

// What the files of a run folder say. What is missing or broken is left empty.
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

// Whether a process may be training in the folder: a run holds the folder's lock while it is at
// work. A folder without a lock tells nothing, so it may.
bool may_be_at_work(const std::filesystem::path& folder);

// The text of a setting, "" if there is none of that key.
std::string setting(const RunRecord& run, const std::string& key);
// The same as a number.
std::optional<double> number_setting(const RunRecord& run, const std::string& key);

// The last value of a curve, where there is one.
std::optional<double> last_of(const std::map<std::string, Curve>& curves, const std::string& name);

// A file's content, or nothing if it cannot be read: a page is made of what is there.
std::optional<std::string> content_of(const std::filesystem::path& path);

}  // namespace gantrain
