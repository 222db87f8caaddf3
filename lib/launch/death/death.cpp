// SPDX-License-Identifier: Apache-2.0
#include "launch/death/death.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <tuple>

#include "launch/local/signals.h"
#include "util/error.h"
#include "util/system.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace {

constexpr size_t kMessageLines = 3;

// At most three lines of the message, those that name the cause first, the later ones indented.
std::string shortened(const std::string& message) {
  std::vector<std::string> lines = telling_lines(message);
  if (lines.size() > kMessageLines) lines.resize(kMessageLines);
  return join(lines, "\n        ");
}

std::string progress(const Death& f) {
  const std::string phase = f.phase.empty() ? "" : fmt::format(" in phase \"{}\"", f.phase);
  if (f.iteration == 0 && f.images_seen == 0) return phase + " before the first iteration";
  return fmt::format("{} at {:.1f} kimg", phase, static_cast<double>(f.images_seen) / 1e3);
}

bool user_can_fix(int code) {
  return code == static_cast<int>(Exit::kUsage) || code == static_cast<int>(Exit::kInput) ||
         code == static_cast<int>(Exit::kEnvironment) || code == static_cast<int>(Exit::kDisk);
}

// What is wrong with the user's input, a disk or the training is no peer's doing, whatever words
// the message has.
bool has_own_cause(int code) {
  return code == static_cast<int>(Exit::kUsage) || code == static_cast<int>(Exit::kInput) ||
         code == static_cast<int>(Exit::kDiverged) ||
         code == static_cast<int>(Exit::kOutOfMemory) || code == static_cast<int>(Exit::kDisk);
}

std::string kill_text(const Death& f) {
  const double gib = static_cast<double>(f.peak_kib) / (1024.0 * 1024.0);
  const std::string peak =
      f.peak_kib > 0 ? fmt::format("; the rank's peak was {:.1f} GiB", gib) : "";
  if (f.host_was_short) {
    return fmt::format(
        "\n        the kernel's out-of-memory killer was at work meanwhile: host memory, "
        "not the GPU's{}; give a smaller --micro-batch or --resolution, or fewer ranks here "
        "(--nproc)",
        peak);
  }
  return fmt::format(
      "\n        gantrain did not send it: a person, the batch system or the "
      "out-of-memory killer of an outer group did{}",
      peak);
}

int64_t counter_in(const std::string& path) {
  std::ifstream file(path);
  std::string name;
  int64_t value = 0;
  while (file >> name >> value) {
    if (name == "oom_kill") return value;
  }
  return 0;
}

}  // namespace

bool is_behind(const RankProgress& a, const RankProgress& b) {
  if (a.stopped != b.stopped) return a.stopped;
  return std::tie(a.collectives, a.iteration) < std::tie(b.collectives, b.iteration);
}

size_t furthest_behind(const std::vector<RankProgress>& ranks) {
  const auto worst = std::min_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    if (is_behind(a, b) || is_behind(b, a)) return is_behind(a, b);
    return a.heartbeat_ns < b.heartbeat_ns;
  });
  return static_cast<size_t>(worst - ranks.begin());
}

Death death_in(const RankSlot& slot, int64_t rank) {
  Death death;
  death.host = host_name();
  death.rank = rank;
  death.pid = static_cast<pid_t>(slot.pid());
  death.phase = slot.phase();
  death.iteration = slot.iteration();
  death.images_seen = slot.images_seen();
  if (const auto crash = slot.crash()) death.stack = crash->stack;
  if (const auto reported = slot.failure()) {
    death.ns = reported->ns;
    death.code = static_cast<int>(reported->code);
    death.message = reported->message;
  }
  return death;
}

bool is_victim(const Death& death) {
  const bool watchdog = death.signal == SIGABRT && tells_of_nccl(death.message);
  if (death.signal != 0 && !watchdog) return false;
  if (has_own_cause(death.code)) return false;
  return tells_of_lost_peer(death.message) || tells_of_vain_wait(death.message);
}

bool waited_in_vain(const Death& death) {
  return is_victim(death) && tells_of_vain_wait(death.message);
}

int exit_code(const Death& death) {
  if (death.host_was_short) return static_cast<int>(Exit::kOutOfMemory);
  const bool named =
      death.code >= static_cast<int>(Exit::kUsage) && death.code <= static_cast<int>(Exit::kDisk);
  return named ? death.code : static_cast<int>(Exit::kRankDied);
}

bool is_restartable(const Death& death) {
  return death.code < static_cast<int>(Exit::kUsage) || death.code > static_cast<int>(Exit::kDisk);
}

std::string cause_of(const Death& d) {
  if (d.signal == SIGKILL && !d.host_was_short && d.iteration == 0) return "";
  const std::string how =
      d.signal != 0 ? signal_text(d.signal) : fmt::format("exit code {}", d.code);
  std::string message = cause_line(d.message);
  std::erase_if(message, [](char c) { return c >= '0' && c <= '9'; });
  return how + ": " + message;
}

std::string death_text(const Death& d, int64_t nodes) {
  if (user_can_fix(d.code) && d.signal == 0 && d.iteration == 0 && !d.message.empty()) {
    return shortened(d.message);
  }
  const std::string who = fmt::format("rank {} ({}, pid {})", d.rank, d.host, d.pid);
  std::string text;
  if (d.signal != 0) {
    text = fmt::format("{} died of {}{}", who, signal_text(d.signal), progress(d));
  } else if (d.message.empty()) {
    text = fmt::format("{} ended with exit code {}{}", who, d.code, progress(d));
  } else {
    text = fmt::format("{} failed{}", who, progress(d));
  }
  if (!d.message.empty()) text += ": " + shortened(d.message);
  if (d.signal == SIGKILL && !d.sent_by_gantrain) text += kill_text(d);
  if (nodes > 1 && is_victim(d)) {
    text += "\n        a rank of another node may have died first: see that node's last lines";
  }
  return text;
}

std::string behind_text(const Death& behind) {
  return fmt::format("rank {} ({}, pid {}) is behind, in phase \"{}\" at iteration {}",
                     behind.rank,
                     behind.host,
                     behind.pid,
                     behind.phase,
                     behind.iteration);
}

std::string hang_text(double hang_timeout_seconds) {
  return fmt::format("no progress for {} (--hang-timeout)", short_duration(hang_timeout_seconds));
}

std::string waiting_text(const Death& waiting) {
  return fmt::format(
      "; rank {} waited for it in vain: {}", waiting.rank, shortened(waiting.message));
}

std::string progress_table(const RankStatusBoard& board, int64_t first_rank) {
  std::string text = "  rank  phase                            iteration      kimg  silent for";
  const int64_t now = monotonic_ns();
  for (int64_t i = 0; i < board.ranks(); ++i) {
    const RankSlot& slot = board.slot(i);
    const int64_t beat = slot.heartbeat_ns() == 0 ? board.start_ns() : slot.heartbeat_ns();
    fmt::format_to(std::back_inserter(text),
                   "\n  {:>4}  {:<31}  {:>9}  {:>8.1f}  {:>8.0f} s",
                   first_rank + i,
                   slot.phase(),
                   slot.iteration(),
                   static_cast<double>(slot.images_seen()) / 1e3,
                   static_cast<double>(now - beat) / 1e9);
  }
  return text;
}

int64_t out_of_memory_kills() {
  int64_t kills = counter_in("/proc/vmstat");
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    if (!starts_with(line, "0::")) continue;
    kills += counter_in("/sys/fs/cgroup" + line.substr(3) + "/memory.events");
  }
  return kills;
}

}  // namespace gantrain
