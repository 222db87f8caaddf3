// SPDX-License-Identifier: Apache-2.0
// The part of the supervisor that looks for ranks that make no progress.
#include <signal.h>

#include <algorithm>

#include "launch/supervisor.h"
#include "util/error.h"
#include "util/log.h"
#include "util/standard_error.h"
#include "util/time.h"

namespace gantrain {

RankProgress Supervisor::progress_of(size_t index) const {
  const RankSlot& slot = attempt_.board.slot(static_cast<int64_t>(index));
  return {.stopped = ranks_[index].alive && is_stopped(ranks_[index].pid),
          .collectives = slot.collectives(),
          .iteration = slot.iteration(),
          .heartbeat_ns = slot.heartbeat_ns()};
}

// The rank of this node that has certainly not come where another one waited, if there is one. It
// may be a rank of another node, or the network.
std::optional<RankFailure> Supervisor::rank_behind(const RankFailure& waiting) const {
  std::vector<RankProgress> all;
  for (size_t i = 0; i < ranks_.size(); ++i) all.push_back(progress_of(i));
  const size_t last = furthest_behind(all);
  const auto waits = static_cast<size_t>(waiting.rank - first_rank(attempt_.world));
  if (!is_behind(all[last], all[waits])) return std::nullopt;
  return describe(last, 0, rusage{});
}

void Supervisor::check_heartbeats(double now) {
  const double allowed = attempt_.options.hang_timeout.seconds;
  if (allowed <= 0 || now - watch_from_ < allowed) return;
  if (fork_server_.pid > 0 && stopped_too_long(fork_server_.pid, loader_stopped_since_, now)) {
    loader_hangs_ = true;
    ::kill(fork_server_.pid, SIGKILL);
    return;
  }
  bool silent = false;
  std::vector<size_t> watched;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    if (!rank.alive) continue;
    const int64_t beat = attempt_.board.slot(static_cast<int64_t>(i)).heartbeat_ns();
    if (beat == 0) {  // it has not begun to train, which may take long
      if (!stopped_too_long(rank.pid, rank.stopped_since, now)) continue;
      silent = true;
    } else {
      silent = silent || now - std::max(static_cast<double>(beat) / 1e9, watch_from_) > allowed;
    }
    watched.push_back(i);
  }
  if (silent) on_hang(watched);
}

// Whether a process has been stopped for the hang timeout. `since` is kept by the caller between
// calls.
bool Supervisor::stopped_too_long(pid_t pid, double& since, double now) const {
  if (!is_stopped(pid)) {
    since = 0;
    return false;
  }
  if (since == 0) since = now;
  return now - std::max(since, watch_from_) > attempt_.options.hang_timeout.seconds;
}

void Supervisor::on_hang(const std::vector<size_t>& watched) {
  clear_live_bar();
  info("{}", progress_table(attempt_.board, first_rank(attempt_.world)));
  std::vector<RankProgress> progress;
  for (const size_t i : watched) progress.push_back(progress_of(i));
  hang_ = describe(watched[furthest_behind(progress)], 0, rusage{});
  abort_all();
}

std::vector<RankFailure> Supervisor::failures() const {
  std::vector<RankFailure> all;
  const bool in_vain = behind_ && waited_in_vain(first_failure(failures_));
  if (hang_ || in_vain) {
    RankFailure first = hang_ ? *hang_ : *behind_;
    first.code = static_cast<int>(Exit::kRankDied);
    if (first.message.empty()) {
      const std::string allowed = short_duration(attempt_.options.hang_timeout.seconds);
      first.message = hang_ ? fmt::format("no progress for {} (--hang-timeout)", allowed)
                            : "other ranks waited for it in vain";
    }
    all.push_back(first);
  } else if (!failures_.empty()) {
    all.push_back(first_failure(failures_));
  }
  for (const RankFailure& failure : failures_) {
    if (failure.rank != all.front().rank) all.push_back(failure);
  }
  return all;
}

}  // namespace gantrain
