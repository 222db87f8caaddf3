// SPDX-License-Identifier: Apache-2.0
#include "launch/report.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

#include "launch/signals.h"
#include "util/error.h"
#include "util/failure_text.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace {

constexpr int64_t kVictimYieldsNs = 1'000'000'000;
constexpr size_t kMessageLines = 3;

// At most three lines of the message, those that name the cause first, the later ones indented.
std::string shortened(const std::string& message) {
  std::vector<std::string> lines = telling_lines(message);
  if (lines.size() > kMessageLines) lines.resize(kMessageLines);
  return join(lines, "\n        ");
}

std::string progress(const RankFailure& f) {
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

std::string kill_text(const RankFailure& f) {
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

RankFailure where_it_was(const RankSlot& slot, int64_t rank) {
  RankFailure failure;
  failure.rank = rank;
  failure.pid = static_cast<pid_t>(slot.pid());
  failure.phase = slot.phase();
  failure.iteration = slot.iteration();
  failure.images_seen = slot.images_seen();
  if (const auto crash = slot.crash()) failure.stack = crash->stack;
  return failure;
}

bool is_victim(const RankFailure& failure) {
  const bool watchdog = failure.signal == SIGABRT && tells_of_nccl(failure.message);
  if (failure.signal != 0 && !watchdog) return false;
  if (has_own_cause(failure.code)) return false;
  return tells_of_lost_peer(failure.message) || tells_of_vain_wait(failure.message);
}

bool waited_in_vain(const RankFailure& failure) {
  return is_victim(failure) && tells_of_vain_wait(failure.message);
}

const RankFailure& first_failure(const std::vector<RankFailure>& failures) {
  std::vector<const RankFailure*> by_time;
  for (const RankFailure& failure : failures) by_time.push_back(&failure);
  std::stable_sort(by_time.begin(), by_time.end(), [](auto* a, auto* b) { return a->ns < b->ns; });
  const RankFailure& earliest = *by_time.front();
  if (!is_victim(earliest)) return earliest;
  for (const RankFailure* other : by_time) {
    if (!is_victim(*other) && other->ns <= earliest.ns + kVictimYieldsNs) return *other;
  }
  return earliest;
}

int exit_code(const RankFailure& failure) {
  if (failure.host_was_short) return static_cast<int>(Exit::kOutOfMemory);
  const bool named = failure.code >= static_cast<int>(Exit::kUsage) &&
                     failure.code <= static_cast<int>(Exit::kDisk);
  return named ? failure.code : static_cast<int>(Exit::kRankDied);
}

bool is_restartable(const RankFailure& failure) {
  return failure.code < static_cast<int>(Exit::kUsage) ||
         failure.code > static_cast<int>(Exit::kDisk);
}

std::string failure_text(const RankFailure& f, const std::string& host, int64_t nnodes) {
  if (user_can_fix(f.code) && f.signal == 0 && f.iteration == 0 && !f.message.empty()) {
    return shortened(f.message);
  }
  const std::string who = fmt::format("rank {} ({}, pid {})", f.rank, host, f.pid);
  std::string text;
  if (f.signal != 0) {
    text = fmt::format("{} died of {}{}", who, signal_text(f.signal), progress(f));
  } else if (f.message.empty()) {
    text = fmt::format("{} ended with exit code {}{}", who, f.code, progress(f));
  } else {
    text = fmt::format("{} failed{}", who, progress(f));
  }
  if (!f.message.empty()) text += ": " + shortened(f.message);
  if (f.signal == SIGKILL && !f.sent_by_gantrain) text += kill_text(f);
  if (nnodes > 1 && is_victim(f)) {
    text += "\n        a rank of another node may have died first: see that node's last lines";
  }
  return text;
}

std::string behind_text(const RankFailure& behind, const std::string& host) {
  return fmt::format("rank {} ({}, pid {}) is behind, in phase \"{}\" at iteration {}",
                     behind.rank,
                     host,
                     behind.pid,
                     behind.phase,
                     behind.iteration);
}

std::string hang_text(double hang_timeout_seconds) {
  return fmt::format("no progress for {} (--hang-timeout): ", short_duration(hang_timeout_seconds));
}

std::string waiting_text(const RankFailure& waiting) {
  return fmt::format(
      "; rank {} waited for it in vain: {}", waiting.rank, shortened(waiting.message));
}

std::string vain_wait_text(const RankFailure& behind,
                           const RankFailure& waiting,
                           const std::string& host) {
  return behind_text(behind, host) + waiting_text(waiting);
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
