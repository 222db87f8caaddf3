// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <functional>
#include <optional>

#include "launch/death/error_files.h"
#include "launch/local/processes.h"
#include "launch/where/network.h"
#include "page/run_page.h"
#include "train/save/run_folder.h"
#include "train/train_request.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr double kDyingSeconds = 300;  // for what a killed process still writes to a slow disk

// The rank that names this process's files: a worker's own, or the first one of the node.
int64_t naming_rank(const World& world) {
  return world.role == World::Role::kWorker ? world.ranks.rank : first_rank(world);
}

// The lock of a folder in which no run is at work, or nothing where one is. Of a folder without a
// lock it is an empty one.
std::optional<UniqueFd> lock_if_free(const fs::path& folder) {
  UniqueFd lock(::open((folder / ".lock").c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  return lock;
}

// The lock of the folder of a run that died. What is left of its ranks holds it until the last of
// their threads has ended, and a thread that writes to a slow disk takes its time. Nothing where
// another run has begun meanwhile, which errors/pids.json tells.
std::optional<UniqueFd> lock_after_death(const fs::path& folder, int64_t first_rank) {
  const std::string dead = pids_text(folder, first_rank);
  const double give_up = monotonic_seconds() + kDyingSeconds;
  std::optional<UniqueFd> lock;
  while (!(lock = lock_if_free(folder)) && monotonic_seconds() < give_up) {
    if (pids_text(folder, first_rank) != dead) break;
    ::usleep(20'000);
  }
  if (pids_text(folder, first_rank) != dead) return std::nullopt;
  return lock;
}

// The folder to write to; empty: there is none.
fs::path folder_of(const AttemptEnd& end, const CommandPlace& place) {
  std::error_code error;
  if (!end.run_folder.empty()) return end.run_folder;
  if (is_refusal(end.code)) return {};
  const fs::path named = place.run_dir;
  if (named.empty() || !fs::is_directory(named, error) || !lock_if_free(named)) return {};
  return named;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// What STATUS has to say; "" if it stays as it is.
std::string status_after(const AttemptEnd& end, const fs::path& folder) {
  const std::string before = read_status(folder);
  if (end.code == 0 || starts_with(before, "done ") || starts_with(before, "ended ")) return "";
  if (end.died && !before.empty() && before != "running") return "";  // it had come to its end
  if (!is_stop_code(end.code)) {
    if (end.error.empty()) return fmt::format("failed with exit code {}", end.code);
    return fmt::format("failed with exit code {}: {}", end.code, first_line(end.error));
  }
  if (!before.empty() && before != "running") return "";
  return find_states(folder).empty() ? "stopped before the first save; nothing was lost"
                                     : "stopped before it could save; the last state is resumable";
}

// A full disk may have no room for a new file, but still has that of the old one.
void replace_status(const fs::path& folder, const std::string& line) {
  try {
    write_status(folder, line);
  } catch (const UserError&) {
    const std::string text = line + "\n";
    const UniqueFd file(
        ::open((folder / "STATUS").c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    const auto size = static_cast<ssize_t>(text.size());
    if (!file || ::pwrite(file.get(), text.data(), text.size(), 0) != size ||
        ::ftruncate(file.get(), size) != 0) {
      throw;
    }
  }
}

std::vector<Json> error_files_of(const AttemptEnd& end,
                                 const fs::path& folder,
                                 const CommandPlace& place) {
  const RankInfo& ranks = end.world.ranks;
  // With several nodes, the error begins with the node that failed first.
  const bool ours =
      ranks.nodes == 1 || starts_with(end.error, fmt::format("node {}: ", ranks.node_rank));
  ErrorFileContext context;
  if (!folder.empty()) {
    const std::vector<NumberedFile> states = find_states(folder);
    if (!states.empty()) context.last_state = fs::absolute(states.front().path).string();
    context.resume = resume_command(place.command, folder.string());
  }
  std::vector<Json> files;
  for (const Death& death : end.deaths) {
    const bool worker = end.world.role == World::Role::kWorker;
    const bool launcher = death.kind == Death::Kind::kLauncher;
    context.local_rank = worker     ? ranks.local_rank
                         : launcher ? 0
                                    : death.rank - first_rank(end.world);
    context.first_cause = launcher ? starts_with(end.error, death.message)
                                   : files.empty() && (worker ? end.first : ours);
    files.push_back(error_file(death, context, unix_seconds()));
  }
  return files;
}

// The launcher's lines. A worker's log writes into the file itself, as soon as there is one.
std::vector<std::string> lines_of(const AttemptEnd& end) {
  std::vector<std::string> lines = take_kept_lines();
  if (lines.empty() && end.run_folder.empty() && !end.error.empty())
    lines.push_back(
        fmt::format("{} error   {}", timestamp(), printable(end.error, std::string::npos, "\n\t")));
  return lines;
}

void append_lines(const AttemptEnd& end,
                  const fs::path& folder,
                  const std::vector<std::string>& lines) {
  const std::string own = fmt::format("log-rank{}.txt", naming_rank(end.world));
  for (const std::string& line : lines)
    append_line(folder / (end.tells_of_run ? "log.txt" : own), line);
}

// Does all of the work that it can. Warns once if some of it failed.
void try_all(const std::vector<std::function<void()>>& work) {
  std::string reason;
  for (const auto& part : work) {
    try {
      part();
    } catch (const std::exception& e) {
      if (reason.empty()) reason = e.what();
    }
  }
  if (!reason.empty()) warn("how the run ended is not all on disk: {}", reason);
}

}  // namespace

bool is_refusal(int code) {
  return code == static_cast<int>(Exit::kUsage) || code == static_cast<int>(Exit::kInput);
}

StartFolder::StartFolder(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  had_lock_ = fs::exists(fs::symlink_status(folder_ / ".lock", error));
  fs::path at = fs::absolute(folder_, error).lexically_normal();
  for (; at.has_relative_path() && !fs::exists(at, error); at = at.parent_path())
    missing_.push_back(at);
}

void StartFolder::make() const { make_writable_folder(folder_); }

void StartFolder::undo() const {
  std::error_code error;
  if (!had_lock_ && lock_if_free(folder_)) fs::remove(folder_ / ".lock", error);
  for (const fs::path& folder : missing_) fs::remove(folder, error);  // not one that holds anything
}

bool already_done(const Config& config) {
  const std::string folder = text_of(config.get("run.run_dir"));
  if (folder.empty() || text_of(config.get("run.resume")) != "auto") return false;
  const std::vector<std::string> words = split(read_status(folder), ' ');
  if (words.size() < 2 || words[0] != "done") return false;
  const auto reached = parse_double(words[1]);
  if (!reached || *reached < config.get("train.kimg").get<double>()) return false;
  info("{} is already done at {} kimg; a larger --kimg goes on, --resume none starts afresh",
       folder,
       words[1]);
  info("next    {}", generate_command(folder));
  return true;
}

void record_end(const AttemptEnd& end, const CommandPlace& place) {
  const std::vector<std::string> lines = lines_of(end);
  const fs::path folder = folder_of(end, place);
  // A session that begins meanwhile waits for the lock.
  std::optional<UniqueFd> lock;
  const bool speaks_for_dead = end.died && !end.frozen && end.tells_of_run && !folder.empty();
  if (speaks_for_dead && !(lock = lock_after_death(folder, naming_rank(end.world)))) return;
  const bool failed = end.code != 0 && !is_stop_code(end.code);
  const std::vector<Json> files = error_files_of(end, folder, place);
  std::vector<std::function<void()>> work;
  if (failed) {
    work.emplace_back([&] {
      write_elastic_file(files.empty() || !end.first
                             ? error_file(end.error, end.code, unix_seconds())
                             : files.front());
    });
  }
  std::error_code error;
  if (!folder.empty() && !fs::is_directory(folder, error)) {
    work.emplace_back([&] { fail(Exit::kDisk, "{}: the run folder is gone", folder.string()); });
  } else if (!folder.empty()) {
    work.emplace_back([&] { append_lines(end, folder, lines); });
    for (size_t i = 0; i < files.size(); ++i) {
      work.emplace_back([&, i] { write_error_file(folder, end.deaths[i].rank, files[i]); });
    }
    for (int64_t i = 0; failed && end.board != nullptr && i < end.board->ranks(); ++i) {
      work.emplace_back([&, i] {
        write_collectives(folder, naming_rank(end.world) + i, end.board->slot(i).trace);
      });
    }
    if (end.tells_of_run) {
      work.emplace_back([&] {
        const std::string status = status_after(end, folder);
        if (!status.empty()) replace_status(folder, status);
      });
    }
    work.emplace_back([&] { remove_pids(folder, naming_rank(end.world)); });
    // Last, because it takes the longest. The page of a run that is done was written by rank 0.
    if (end.tells_of_run && end.code != 0) work.emplace_back([&] { write_run_page(folder); });
  }
  try_all(work);
}

void record_refusal(const World& world, const UserError& error, const CommandPlace& place) {
  const int code = static_cast<int>(error.code());
  record_end({world, "", code, error.what(), "", {}}, place);
}

}  // namespace gantrain
