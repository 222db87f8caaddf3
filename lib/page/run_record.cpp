// SPDX-License-Identifier: Apache-2.0
#include "page/run_record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

// Results of one recipe count as such whatever the order of its keys.
using SortedJson = nlohmann::json;

// Calls `use` with each line of a file that is a JSON object; never if there is no such file.
void each_object(const fs::path& path,
                 int64_t at_most,
                 const std::function<void(const SortedJson&)>& use) {
  each_line(path, at_most, [&use](const std::string& line) {
    const auto object = parse_foreign<SortedJson>(line);
    if (object.is_object()) use(object);
  });
}

constexpr size_t kMostCurves = 2000;   // of one kind
constexpr size_t kMostPaths = 20'000;  // of one folder

// The curve of that name, a new one where there is none; null where there are too many.
Curve* curve_of(std::map<std::string, Curve>& curves, const std::string& name) {
  const bool full = curves.size() >= kMostCurves && curves.count(name) == 0;
  return full ? nullptr : &curves[name];
}

// How much is read of files of one kind, of which a stranger's folder may have any number.
class Allowance {
 public:
  // The bytes that may be read of this file, at most `at_most` and as many as are left.
  int64_t take(const fs::path& file, int64_t at_most) {
    std::error_code error;
    const uintmax_t size = fs::file_size(file, error);
    const int64_t bytes = std::min(at_most, left_);
    left_ -= error ? 0 : static_cast<int64_t>(std::min<uintmax_t>(size, bytes));
    return bytes;
  }

 private:
  int64_t left_ = kMostOfLines;
};

double number_or_nan(const SortedJson& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

// The number at the key of an object; nothing where there is none.
template <class AnyJson>
std::optional<double> number_at(const AnyJson& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->template get<double>();
}

// Drops the points at this place or later, which were written before the run resumed from an
// earlier state; of a metric that at this place alone: earlier models may be measured later.
void append(Curve* curve, double kimg, double value, bool of_metric = false) {
  if (curve == nullptr) return;
  const auto at = std::ranges::lower_bound(*curve, kimg, {}, &Curve::value_type::first);
  const auto stays = of_metric && at != curve->end() ? at + (at->first == kimg) : curve->end();
  curve->insert(curve->erase(at, stays), {kimg, value});
}

std::optional<double> kimg_of_row(const SortedJson& row) {
  const auto kimg = row.find("Progress/kimg");
  if (kimg == row.end() || !kimg->is_object()) return std::nullopt;
  return number_at(*kimg, "mean");
}

std::optional<double> kimg_of_metric(const SortedJson& line) {
  if (const auto kimg = number_at(line, "kimg")) return kimg;
  const auto snapshot = line.find("snapshot");
  if (snapshot == line.end() || !snapshot->is_string()) return std::nullopt;
  return kimg_in_name(fs::path(snapshot->get<std::string>()).filename());
}

// What names of curves end with, by the recipes of one file.
class RecipeNames {
 public:
  // Returns "" for the first recipe, " (50000 fakes)" for another one, and " (recipe 3)" where that
  // would not tell it from an earlier one.
  const std::string& of(const SortedJson& line) {
    const SortedJson recipe = line.value("recipe", SortedJson());
    const auto [known, is_new] = names_.try_emplace(recipe.dump());
    if (!is_new) return known->second;
    const bool counted = recipe.is_object() && recipe.contains("fakes");
    const std::string fakes = counted ? " (" + recipe["fakes"].dump() + " fakes)" : "";
    const bool tells = used_.insert(fakes).second && counted;
    if (names_.size() > 1)
      known->second = tells ? fakes : " (recipe " + std::to_string(names_.size()) + ")";
    return known->second;
  }

 private:
  std::map<std::string, std::string> names_;  // by recipe
  std::set<std::string> used_;
};

fs::path newest_model(const fs::path& run_folder) {
  const std::vector<fs::path> models = paths_in(run_folder, "model-", ".safetensors");
  const auto newest = std::max_element(models.begin(), models.end());
  return newest == models.end() ? fs::path() : *newest;
}

// The first bytes of a file, fewer where it is shorter; "" if it cannot be read.
std::string start_of(const fs::path& file, size_t bytes) {
  try {
    const int descriptor = open_regular(file, O_RDONLY);
    std::string text(bytes, '\0');
    const ssize_t got = ::pread(descriptor, text.data(), bytes, 0);
    ::close(descriptor);
    text.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return text;
  } catch (const UserError&) {
    return "";
  }
}

// The header of a safetensors file: its length as 8 bytes, little-endian, then JSON. Null if it
// cannot be read.
SortedJson header_of(const fs::path& file) {
  std::string bytes = start_of(file, 8);
  uint64_t length = 0;
  for (size_t i = bytes.size(); i > 0; --i)
    length = length << 8 | static_cast<unsigned char>(bytes[i - 1]);
  if (bytes.size() < 8 || length > uint64_t{kMostOfJson}) return {};
  bytes = start_of(file, 8 + length);
  return bytes.size() < 8 + length ? SortedJson() : parse_foreign<SortedJson>(bytes.substr(8));
}

constexpr size_t kLongest = 400;  // bytes of a name, or of one incident's text

// At most kLongest bytes, cut between two characters of UTF-8.
std::string shortened(const std::string& text) {
  if (text.size() <= kLongest) return text;
  size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + " ...";
}

// Names of the classes that a run's models were trained on, by label, from the header of its newest
// model file; nothing for unconditional models, also where the data has labels, and where these are
// vectors.
std::vector<std::string> classes_of_models(const fs::path& run_folder) {
  const SortedJson header = header_of(newest_model(run_folder));
  const SortedJson metadata =
      header.is_object() ? header.value("__metadata__", SortedJson()) : header;
  if (!metadata.is_object() || !metadata.contains("gantrain.classes")) return {};
  const SortedJson& table = metadata["gantrain.classes"];
  if (!table.is_string()) return {};
  std::vector<std::string> names;
  const Json rows = parse_foreign(table.get_ref<const std::string&>());
  if (!rows.is_array()) return {};
  for (const Json& row : rows) {
    const bool named = row.is_object() && row.contains("name") && row["name"].is_string();
    names.push_back(named ? shortened(row["name"].get_ref<const std::string&>()) : "");
  }
  return names;
}

constexpr int64_t kMostOfLog = 16 << 20;  // bytes at the end of one
constexpr size_t kMostIncidents = 200;
constexpr size_t kMostSeen = 200'000;  // of which the first and the last ones are kept
constexpr size_t kMostResumes = 1000;
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

void read_log(const fs::path& path, int64_t at_most, const std::string& prefix, RunRecord& run) {
  each_line(path, at_most, [&](const std::string& line) {
    const LogLine parsed = parse_line(line);
    constexpr std::string_view kNext = "next    ";
    if (starts_with(parsed.text, kNext)) run.next = parsed.text.substr(kNext.size());
    const auto kimg = resumed_at(parsed.text);
    if (kimg && run.resumes.size() < kMostResumes) run.resumes.push_back(*kimg);
    if (parsed.time.empty() || !is_incident(parsed.text)) return;
    if (run.incidents.size() >= kMostSeen) return;
    run.incidents.push_back(
        {parsed.time, prefix + shortened(parsed.text), starts_with(parsed.text, "error ")});
  });
}

// Adds an incident of these files, where there are any.
void add_files(const std::string& words, const std::vector<std::string>& names, RunRecord& run) {
  if (names.empty()) return;
  run.incidents.push_back({"", shortened(words + join(names, ", ")), false});
}

void read_superseded(const fs::path& folder, RunRecord& run) {
  std::vector<std::string> names;
  for (const fs::path& path : paths_in(folder, "superseded-", ""))
    names.push_back(path.filename().string());
  const std::string count = std::to_string(names.size());
  add_files(count + " files of a history that the run has left behind: ", names, run);
}

void read_earlier_failures(const fs::path& folder, RunRecord& run) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const fs::path& session : paths_in(folder_in(folder, "errors"), "earlier-", "")) {
    if (fs::is_symlink(session, ignored) || files.size() > kMostPaths) continue;
    for (const fs::path& file : paths_in(session, "", ""))
      files.push_back(fs::relative(file, folder, ignored).string());
  }
  add_files("failures of earlier sessions: ", files, run);
}

void keep_ends(std::vector<Incident>& incidents) {
  if (incidents.size() <= kMostIncidents) return;
  const size_t left_out = incidents.size() - kMostIncidents;
  const auto first = incidents.begin() + kMostIncidents / 2;
  *first = {"", fmt::format("... {} more, which the logs have ...", left_out + 1), false};
  incidents.erase(first + 1, first + 1 + static_cast<std::ptrdiff_t>(left_out));
}

Json json_of(const fs::path& path, int64_t at_most = kMostOfJson) {
  const auto text = content_of(path, at_most);
  return text ? parse_foreign(*text) : Json();
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
  end.kimg = number_at(extra, "kimg");
  const auto first = extra.find("first_cause");
  end.first_cause = first != extra.end() && first->is_boolean() && first->get<bool>();
  return end;
}

std::vector<RankEnd> read_ends(const fs::path& folder) {
  std::vector<RankEnd> ends;
  Allowance allowance;
  for (const fs::path& file : paths_in(folder_in(folder, "errors"), "rank", ".json")) {
    if (auto end = end_of(json_of(file, allowance.take(file, kMostOfJson))))
      ends.push_back(std::move(*end));
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

std::optional<double> kimg_in_name(const std::string& name) {
  const auto digit = [&](size_t i) { return i < name.size() && std::isdigit(name[i]) != 0; };
  size_t first = 0;
  while (first < name.size() && !digit(first)) ++first;
  size_t end = first;
  while (digit(end) || (end > first && end < name.size() && name[end] == '.' && digit(end + 1)))
    ++end;
  return parse_double(name.substr(first, end - first));
}

std::optional<double> kimg_of_line(const std::string& line) {
  const auto row = parse_foreign<SortedJson>(line);
  if (!row.is_object()) return std::nullopt;
  const auto kimg = kimg_of_row(row);
  return kimg ? kimg : kimg_of_metric(row);
}

Json newest_metric(const fs::path& folder, const std::string& name) {
  Json newest;
  each_object(folder / ("metric-" + name + ".jsonl"), kMostOfLines, [&](const SortedJson& row) {
    if (number_at(row, "kimg") && row.contains("results")) newest = Json::parse(row.dump());
  });
  return newest;
}

std::map<std::string, Curve> read_stats(const fs::path& run_folder) {
  std::map<std::string, Curve> curves;
  each_object(run_folder / "stats.jsonl", kMostOfLines, [&](const SortedJson& row) {
    const auto kimg = kimg_of_row(row);
    if (!kimg) return;
    for (const auto& [name, value] : row.items()) {
      if (!value.is_object() || !value.contains("mean")) continue;
      append(curve_of(curves, name), *kimg, number_or_nan(value["mean"]));
    }
  });
  return curves;
}

std::map<std::string, Curve> read_metrics(const fs::path& run_folder) {
  std::map<std::string, Curve> curves;
  Allowance allowance;
  for (const fs::path& file : paths_in(run_folder, "metric-", ".jsonl")) {
    const std::string metric = file.stem().string().substr(7);
    RecipeNames recipes;
    each_object(file, allowance.take(file, kMostOfLines), [&](const SortedJson& line) {
      const auto kimg = kimg_of_metric(line);
      const auto results = line.find("results");
      if (!kimg || results == line.end() || !results->is_object()) return;
      const std::string& recipe = recipes.of(line);
      for (const auto& [name, value] : results->items()) {
        const std::string own = name == metric ? name : metric + "/" + name;
        append(curve_of(curves, own + recipe), *kimg, number_or_nan(value), true);
      }
    });
  }
  return curves;
}

void read_incidents(const fs::path& folder, RunRecord& run) {
  Allowance allowance;
  const fs::path own = folder / "log.txt";
  read_log(own, allowance.take(own, kMostOfLog), "", run);
  const std::string next = run.next;
  const std::vector<double> resumes = run.resumes;
  for (const fs::path& log : paths_in(folder, "log-rank", ".txt"))
    read_log(
        log, allowance.take(log, kMostOfLog), "[rank " + log.stem().string().substr(8) + "] ", run);
  run.next = next;
  run.resumes = resumes;
  std::stable_sort(run.incidents.begin(),
                   run.incidents.end(),
                   [](const Incident& a, const Incident& b) { return a.time < b.time; });
  keep_ends(run.incidents);
  read_superseded(folder, run);
  read_earlier_failures(folder, run);
}

bool may_be_at_work(const fs::path& folder) {
  const int lock =
      ::open((folder / ".lock").c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (lock < 0) return true;
  const bool is_free = ::flock(lock, LOCK_SH | LOCK_NB) == 0;
  ::close(lock);
  return !is_free;
}

bool is_run_folder(const fs::path& folder) {
  std::error_code error;
  for (const char* name : {"config.json", "STATUS", "stats.jsonl"}) {
    if (fs::is_regular_file(fs::symlink_status(folder / name, error))) return true;
  }
  return false;
}

void require_run_folder(const fs::path& folder) {
  if (is_run_folder(folder)) return;
  fail(Exit::kInput,
       "{}: no run folder; it holds neither config.json, STATUS nor stats.jsonl",
       folder.string());
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
  run.status = trim(content_of(folder / "STATUS", kMostOfText).value_or(""));
  run.ends = read_ends(folder);
  read_config(folder, run);
  run.classes = classes_of_models(folder);
  run.environment = json_of(folder / "env.json");
  if (!run.environment.is_object()) run.environment = Json::object();
  run.command = trim(content_of(folder / "command.txt", kMostOfText).value_or(""));
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

const Curve* find_curve(const std::map<std::string, Curve>& curves, const std::string& name) {
  const auto found = curves.find(name);
  return found == curves.end() || found->second.empty() ? nullptr : &found->second;
}

std::optional<double> last_of(const std::map<std::string, Curve>& curves, const std::string& name) {
  const Curve* curve = find_curve(curves, name);
  return curve == nullptr ? std::nullopt : std::optional(curve->back().second);
}

fs::path folder_in(const fs::path& run_folder, const char* name) {
  std::error_code error;
  const fs::path folder = run_folder / name;
  return fs::is_symlink(folder, error) ? "/dev/null/none" : folder;
}

std::vector<fs::path> paths_in(const fs::path& folder,
                               std::string_view prefix,
                               std::string_view suffix) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end;
       !error && at != end && paths.size() < kMostPaths;
       at.increment(error)) {
    const std::string name = at->path().filename();
    if (starts_with(name, prefix) && ends_with(name, suffix)) paths.push_back(at->path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace gantrain
