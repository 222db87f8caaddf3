// SPDX-License-Identifier: Apache-2.0
#include "launch/death/error_files.h"

#include <fmt/chrono.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdexcept>
#include <utility>

#include "config/schema.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

// A link may lead to files of somebody else; then it is a folder that cannot exist.
fs::path errors_of(const fs::path& run_folder) {
  std::error_code error;
  const fs::path folder = run_folder / "errors";
  return fs::is_symlink(folder, error) ? "/dev/null/errors" : folder;
}

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

std::string iso_time(double when) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(when)));
}

// torchrun prints py_callstack where there is one, so this has the message too.
Json in_elastic_shape(const std::string& message,
                      const std::string& stack,
                      double when,
                      const Json& facts) {
  Json extra = {{"timestamp", std::to_string(static_cast<int64_t>(when))},
                {"py_callstack", stack.empty() ? message : message + "\n" + stack},
                {"time", iso_time(when)}};
  extra.update(facts);
  return {{"message", {{"message", message}, {"extraInfo", extra}}}};
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? "" : std::string("SIG") + name;
}

constexpr const char* kTraceFile = "collectives-rank";
constexpr const char* kWordFile = "word-rank";
// Times of files come from a clock that is read once in some milliseconds, and so lie behind.
constexpr int64_t kFileClockStep = 100'000'000;  // nanoseconds, more than that

// How the rank died, with its whole message.
std::string whole_text(const Death& death) {
  if (death.kind == Death::Kind::kLoader || death.kind == Death::Kind::kLauncher)
    return death.message;
  Death end = death;
  end.message.clear();
  const std::string text = death_text(end, 1);
  return death.message.empty() ? text : text + ": " + death.message;
}

void write_json(const fs::path& path, const Json& content) {
  // A message may hold bytes that are not UTF-8, such as a file's name.
  write_file(path, content.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::string pids_name(int64_t first_rank) {
  return first_rank == 0 ? "pids.json" : fmt::format("pids-rank{}.json", first_rank);
}

std::vector<fs::path> error_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    const bool error_file =
        (starts_with(name, "rank") || starts_with(name, kWordFile)) && ends_with(name, ".json");
    const bool trace = starts_with(name, kTraceFile) && ends_with(name, ".jsonl");
    if (error_file || trace) files.push_back(entry.path());
  }
  return files;
}

void write_in_errors(const fs::path& run_folder, const std::string& name, const Json& content) {
  // A run folder that is gone was removed by somebody, and is not made again.
  std::error_code error;
  fs::create_directory(errors_of(run_folder), error);
  if (fs::is_symlink(run_folder / "errors", error)) return;
  write_json(errors_of(run_folder) / name, content);
}

// When a file was written, on the clock of monotonic_ns(); nothing if it is gone.
std::optional<int64_t> written_at(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return std::nullopt;
  const int64_t ns = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  return monotonic_ns() - (static_cast<int64_t>(unix_seconds() * 1e9) - ns);
}

}  // namespace

Json error_file(const Death& death, const ErrorFileContext& context, double when) {
  const bool signalled = death.signal != 0;
  const Json facts = {{"rank", death.rank},
                      {"local_rank", context.local_rank},
                      {"host", death.host},
                      {"pid", death.pid != 0 ? Json(death.pid) : Json()},
                      {"phase", or_null(death.phase)},
                      {"collective", or_null(death.collective)},
                      {"iteration", death.iteration},
                      {"kimg", static_cast<double>(death.images_seen) / 1e3},
                      {"exit_code", signalled ? Json() : Json(death.code)},
                      {"signal", signalled ? Json(death.signal) : Json()},
                      {"signal_name", or_null(signalled ? signal_name(death.signal) : "")},
                      {"first_cause", context.first_cause},
                      {"last_state", or_null(context.last_state)},
                      {"resume", or_null(context.resume)}};
  return in_elastic_shape(whole_text(death), death.stack, when, facts);
}

Json error_file(const std::string& message, int exit_code, double when) {
  return in_elastic_shape(
      message, "", when, {{"host", host_name()}, {"pid", ::getpid()}, {"exit_code", exit_code}});
}

void write_elastic_file(const Json& content) {
  const fs::path path = environment_variable("TORCHELASTIC_ERROR_FILE");
  if (path.empty()) return;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);  // writing says what is wrong
  write_json(path, content);
}

void write_error_file(const fs::path& run_folder, int64_t rank, const Json& content) {
  write_in_errors(run_folder, fmt::format("rank{}.json", rank), content);
}

void write_word(const fs::path& run_folder, const Death& death) {
  write_in_errors(run_folder, fmt::format("{}{}.json", kWordFile, death.rank), message_of(death));
}

std::vector<Death> words_in(const fs::path& run_folder, int64_t since) {
  std::vector<Death> words;
  for (const fs::path& file : error_files_in(errors_of(run_folder))) {
    if (!starts_with(file.filename().string(), kWordFile)) continue;
    const std::optional<int64_t> written = written_at(file);
    const Json content = parse_foreign(content_of(file, kMostOfJson).value_or(""));
    if (!written || *written < since - kFileClockStep || !content.is_object()) continue;
    try {
      words.push_back(message_from<Death>(content));
      words.back().ns = *written;
    } catch (const std::logic_error&) {  // another version's
    }
  }
  return words;
}

void write_collectives(const fs::path& run_folder, int64_t rank, const RankTrace& trace) {
  const double clock = unix_seconds() - monotonic_seconds();
  std::string lines;
  for (const Collective& c : trace.collectives()) {
    const auto seconds = [](int64_t ns) { return static_cast<double>(ns) / 1e9; };
    const Json took = c.ended_ns > 0 ? Json(seconds(c.ended_ns - c.begun_ns)) : Json();
    const Json line = {{"number", c.number},
                       {"what", c.what},
                       {"purpose", c.purpose},
                       {"phase", c.phase},
                       {"tensors", c.tensors},
                       {"bytes", c.bytes},
                       {"begun", clock + seconds(c.begun_ns)},
                       {"seconds", took}};
    lines += json_line(line) + "\n";
  }
  std::error_code error;
  if (lines.empty() || fs::is_symlink(run_folder / "errors", error)) return;
  fs::create_directory(errors_of(run_folder), error);
  write_file(errors_of(run_folder) / fmt::format("{}{}.jsonl", kTraceFile, rank), lines);
}

void set_errors_aside(const fs::path& run_folder) {
  const std::vector<fs::path> files = error_files_in(errors_of(run_folder));
  if (files.empty()) return;
  std::error_code error;
  fs::path folder;
  for (int64_t n = 1;; ++n) {
    folder = errors_of(run_folder) / fmt::format("earlier-{}", n);
    if (fs::create_directory(folder, error) || error) break;
  }
  for (const fs::path& file : files) {
    if (!error) fs::rename(file, folder / file.filename(), error);
  }
  if (error) warn("{}: cannot be moved aside: {}", files.front().string(), error.message());
}

void write_pids(const fs::path& run_folder, const RankPids& ranks) {
  Json content = Json::object();
  for (const auto& [rank, pid] : ranks.pids) content[std::to_string(rank)] = pid;
  content["host"] = ranks.host;
  content["launcher"] = ranks.launcher;
  make_writable_folder(errors_of(run_folder));
  write_file(errors_of(run_folder) / pids_name(ranks.first_rank), content.dump(2) + "\n");
}

std::string pids_text(const fs::path& run_folder, int64_t first_rank) {
  return content_of(errors_of(run_folder) / pids_name(first_rank), kMostOfJson).value_or("");
}

void remove_pids(const fs::path& run_folder, int64_t first_rank) {
  std::error_code error;
  fs::remove(errors_of(run_folder) / pids_name(first_rank), error);
  fs::remove(errors_of(run_folder), error);  // if it is empty
}

}  // namespace gantrain
