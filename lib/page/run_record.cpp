// SPDX-License-Identifier: Apache-2.0
#include "page/run_record.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>

#include "page/incidents.h"
#include "page/model_classes.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

Json json_of(const fs::path& path) {
  const auto text = content_of(path);
  if (!text) return {};
  return Json::parse(*text, nullptr, /*allow_exceptions=*/false, /*ignore_comments=*/true);
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<int64_t> integer_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

std::optional<RankEnd> end_of(const Json& file) {
  if (!file.is_object() || !file.contains("message") || !file["message"].is_object())
    return std::nullopt;
  const Json& message = file["message"];
  const Json extra = message.value("extraInfo", Json::object());
  if (!extra.is_object()) return std::nullopt;
  RankEnd end;
  end.rank = integer_at(extra, "rank").value_or(0);
  end.message = text_at(message, "message");
  end.host = text_at(extra, "host");
  end.phase = text_at(extra, "phase");
  end.last_state = text_at(extra, "last_state");
  end.resume = text_at(extra, "resume");
  const std::string stack = text_at(extra, "py_callstack");
  if (starts_with(stack, end.message)) end.stack = trim(stack.substr(end.message.size()));
  end.iteration = integer_at(extra, "iteration");
  end.exit_code = integer_at(extra, "exit_code");
  end.signal = integer_at(extra, "signal");
  const auto kimg = extra.find("kimg");
  if (kimg != extra.end() && kimg->is_number()) end.kimg = kimg->get<double>();
  const auto first = extra.find("first_cause");
  end.first_cause = first != extra.end() && first->is_boolean() && first->get<bool>();
  return end;
}

std::vector<RankEnd> read_ends(const fs::path& folder) {
  std::vector<RankEnd> ends;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / "errors", ignored)) {
    const std::string name = entry.path().filename();
    if (!starts_with(name, "rank") || !ends_with(name, ".json")) continue;
    if (const auto end = end_of(json_of(entry.path()))) ends.push_back(*end);
  }
  std::sort(ends.begin(), ends.end(), [](const RankEnd& a, const RankEnd& b) {
    return a.first_cause != b.first_cause ? a.first_cause : a.rank < b.rank;
  });
  return ends;
}

void read_config(const fs::path& folder, RunRecord& run) {
  const Json config = json_of(folder / "config.json");
  if (!config.is_object()) return;
  const Json values = config.value("values", Json::object());
  if (!values.is_object()) return;
  for (const auto& [key, entry] : values.items()) {
    if (!entry.is_object() || !entry.contains("value")) continue;
    run.settings.push_back({key, text_of(entry["value"]), text_at(entry, "origin")});
  }
}

}  // namespace

bool may_be_at_work(const fs::path& folder) {
  const int lock = ::open((folder / ".lock").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (lock < 0) return true;
  const bool is_free = ::flock(lock, LOCK_SH | LOCK_NB) == 0;
  ::close(lock);
  return !is_free;
}

std::optional<std::string> content_of(const fs::path& path) {
  try {
    return read_file(path);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

bool is_run_folder(const fs::path& folder) {
  std::error_code error;
  for (const char* name : {"config.json", "STATUS", "stats.jsonl"}) {
    if (fs::is_regular_file(folder / name, error)) return true;
  }
  return false;
}

RunRecord read_run_record(const fs::path& folder) {
  RunRecord run;
  std::error_code ignored;
  const fs::path whole = fs::canonical(folder, ignored);
  run.folder = folder;
  run.name = (whole.empty() ? folder : whole).filename();
  // A run frees the lock after it has written its end, so a "running" that is read after a free
  // lock was found is nobody's.
  run.at_work = may_be_at_work(folder);
  run.status = trim(content_of(folder / "STATUS").value_or(""));
  run.ends = read_ends(folder);
  read_config(folder, run);
  run.classes = classes_of_models(folder);
  run.environment = json_of(folder / "env.json");
  if (!run.environment.is_object()) run.environment = Json::object();
  run.command = trim(content_of(folder / "command.txt").value_or(""));
  read_incidents(folder, run);
  run.stats = read_stats(folder);
  run.metrics = read_metrics(folder);
  return run;
}

std::string setting(const RunRecord& run, const std::string& key) {
  for (const Setting& one : run.settings) {
    if (one.key == key) return one.value;
  }
  return "";
}

std::optional<double> number_setting(const RunRecord& run, const std::string& key) {
  return parse_double(setting(run, key));
}

std::optional<double> last_of(const std::map<std::string, Curve>& curves, const std::string& name) {
  const auto found = curves.find(name);
  if (found == curves.end() || found->second.empty()) return std::nullopt;
  return found->second.back().second;
}

}  // namespace gantrain
