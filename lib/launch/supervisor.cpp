// SPDX-License-Identifier: Apache-2.0
#include "launch/supervisor.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "launch/early_stop.h"
#include "launch/node_council.h"
#include "launch/process_tree.h"
#include "launch/restarts.h"
#include "util/error.h"
#include "util/host_name.h"
#include "util/log.h"
#include "util/standard_error.h"
#include "util/time.h"

namespace gantrain {

namespace {

// All of these are in seconds.
constexpr double kCauseWait = 1;  // the time in which the cause of a victim's failure has to show
constexpr double kWatchStep = 1;  // between two looks at the signs of life
constexpr double kMeetingGrace = 1;  // after a stop signal, for ranks that have not met yet
// After SIGKILL. A process ends at once, unless it is inside a system call of a dead disk.
constexpr double kKilledWait = 5;
constexpr double kSweepSeconds = 2;  // for killing what the ranks left behind

constexpr int code_of(Exit exit) { return static_cast<int>(exit); }

}  // namespace

Supervisor::Supervisor(const Attempt& attempt,
                       SignalGate& gate,
                       ForkServer fork_server,
                       Output output)
    : attempt_(attempt),
      gate_(gate),
      fork_server_(std::move(fork_server)),
      output_(std::move(output)),
      watch_from_(monotonic_seconds()),
      kills_before_(out_of_memory_kills()) {}

Outcome Supervisor::run() {
  while (!finished() && (give_up_at_ == 0 || monotonic_seconds() < give_up_at_)) {
    wait_for_events();
    while (const auto signal = gate_.next()) on_signal(*signal);
    read_answer();
    consult_nodes();
    output_.relay();
    flush_standard_error(0);  // what was kept when nobody read
    check_deadlines();
  }
  const std::vector<pid_t> left = kill_process_tree(kSweepSeconds);
  output_.finish();
  clear_live_bar();
  for (const pid_t pid : left) warn("process {} cannot be killed (in a system call)", pid);
  return outcome();
}

bool Supervisor::finished() const {
  return fork_server_.pid < 0 && !awaits_verdict() &&
         std::none_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.alive; });
}

void Supervisor::wait_for_events() {
  std::vector<pollfd> polled{{gate_.descriptor(), POLLIN, 0}};
  if (fork_server_.answer) polled.push_back({fork_server_.answer.get(), POLLIN, 0});
  output_.watch(polled);
  if (attempt_.nodes != nullptr) attempt_.nodes->watch(polled);
  const double now = monotonic_seconds();
  const double wait = next_deadline(now) - now;
  expected_wake_ = now + wait;
  const int milliseconds =
      std::isinf(wait) ? -1 : static_cast<int>(std::ceil(std::max(wait, 0.0) * 1e3));
  ::poll(polled.data(), polled.size(), milliseconds);
  // If poll() returned late, this process was stopped (Ctrl-Z) or the machine slept, and so did the
  // ranks. Their silence is counted anew from here.
  const double late = monotonic_seconds() - expected_wake_;
  if (late > kWatchStep) watch_from_ = monotonic_seconds();
}

double Supervisor::next_deadline(double now) const {
  double next = std::numeric_limits<double>::infinity();
  if (attempt_.options.hang_timeout.seconds > 0 || attempt_.starter != 0) next = now + kWatchStep;
  if (attempt_.nodes != nullptr) next = std::min(next, attempt_.nodes->next_deadline());
  if (abort_at_ > 0) next = std::min(next, abort_at_);
  if (kill_at_ > 0) next = std::min(next, kill_at_);
  if (give_up_at_ > 0) next = std::min(next, give_up_at_);
  return next;
}

void Supervisor::on_signal(int signal) {
  if (signal == SIGCHLD) {
    reap();
  } else {
    on_stop_signal(signal);
  }
}

void Supervisor::on_stop_signal(int signal) {
  const double now = monotonic_seconds();
  if (signal == SIGINT) ++interrupts_;
  if (stop_signal_ == 0) {
    // Read the answer before the stop is noted: ranks that the fork server has answered for by now
    // may have something to save. Ranks in a later answer have only just started and are killed.
    read_answer();
    stop_signal_ = signal;
    attempt_.board.request_stop(signal);
    if (attempt_.nodes != nullptr) attempt_.nodes->tell_stop(signal);
    if (aborting_) return;
    if (ranks_.empty()) {  // still loading: there is nothing to save
      kill_all();
      return;
    }
    signal_all(signal == SIGUSR1 ? SIGUSR1 : SIGTERM);
    // Ranks that still wait for others at the rendezvous do not see the signal, nor have they
    // anything to save.
    const double grace = all_are_meeting() ? std::min(attempt_.options.grace.seconds, kMeetingGrace)
                                           : attempt_.options.grace.seconds;
    kill_at_ = now + grace;
    clear_live_bar();
    info("{}: asked the ranks to save and stop; at most {}{}",
         signal_text(signal),
         short_duration(grace),
         signal == SIGINT ? ", Ctrl-C again: 2s" : "");
  } else if (signal == SIGINT && interrupts_ >= 3) {
    kill_at_ = now;
  } else if (signal == SIGINT && (interrupts_ >= 2 || !stop_was_relayed_)) {
    const double soon = now + attempt_.options.patience.second_interrupt;
    kill_at_ = kill_at_ > 0 ? std::min(kill_at_, soon) : soon;
  }
}

bool Supervisor::all_are_meeting() const {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const std::string phase = attempt_.board.slot(static_cast<int64_t>(i)).phase();
    if (phase != "start-up" && phase != "rendezvous") return false;
  }
  return true;
}

void Supervisor::read_answer() {
  char buffer[4096];
  while (fork_server_.answer) {
    const ssize_t size = ::read(fork_server_.answer.get(), buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return;
    answer_.append(buffer, static_cast<size_t>(size));
    started_ = parse_answer(answer_);
    if (!started_.complete && size > 0) continue;
    fork_server_.answer.close();
    for (const pid_t pid : started_.pids) {
      Rank rank;
      rank.pid = pid;
      ranks_.push_back(rank);
    }
    if (stop_signal_ != 0) kill_all();
  }
}

void Supervisor::reap() {
  // A rank becomes a child of this process when the fork server ends, so its pid was answered
  // before.
  read_answer();
  while (true) {
    int status = 0;
    rusage usage{};
    const pid_t pid = wait4(-1, &status, WNOHANG, &usage);
    if (pid < 0 && errno == EINTR) continue;
    if (pid <= 0) return;
    if (pid == fork_server_.pid) {
      on_fork_server_end(status);
      continue;
    }
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (ranks_[i].pid == pid) on_rank_end(i, status, usage);
    }
  }
}

void Supervisor::on_fork_server_end(int status) {
  fork_server_.pid = -1;
  read_answer();
  if (started_.complete || stop_signal_ != 0) return;
  const bool died = WIFSIGNALED(status);
  // Somebody else kills; a crash is a mistake of this program and would come again.
  const bool killed = died && WTERMSIG(status) == SIGKILL;
  started_.code = killed ? Exit::kRankDied : Exit::kInternal;
  if (loader_hangs_) {
    started_.error = fmt::format("loading the trainer was stopped for {} (--hang-timeout)",
                                 short_duration(attempt_.options.hang_timeout.seconds));
  } else if (died) {
    started_.error = fmt::format("loading the trainer died of {}", signal_text(WTERMSIG(status)));
  } else {
    started_.error =
        fmt::format("loading the trainer ended with exit code {}", WEXITSTATUS(status));
  }
}

void Supervisor::on_rank_end(size_t index, int status, const rusage& usage) {
  Rank& rank = ranks_[index];
  rank.alive = false;
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    const bool ours = (signal == SIGKILL && rank.kill_sent) ||
                      ((signal == SIGTERM || signal == SIGUSR1) && rank.stop_sent);
    if (!ours) on_failure(describe(index, status, usage));
    return;
  }
  rank.code = WEXITSTATUS(status);
  const RankSlot& slot = attempt_.board.slot(static_cast<int64_t>(index));
  if (rank.code == 0 || is_stop_code(rank.code)) {
    if (slot.returned() || stop_signal_ != 0 || aborting_) return;
    RankFailure failure = describe(index, status, usage);
    failure.message = fmt::format("it left with exit code {} before its work was done", rank.code);
    on_failure(failure);
    return;
  }
  // A rank that ended because all were told to end, and reported nothing, did not fail.
  const bool told = aborting_ && rank.code == code_of(Exit::kRankDied);
  if (told && !slot.failure()) return;
  on_failure(describe(index, status, usage));
}

RankFailure Supervisor::describe(size_t index, int status, const rusage& usage) const {
  const RankSlot& slot = attempt_.board.slot(static_cast<int64_t>(index));
  RankFailure failure =
      where_it_was(slot, first_rank(attempt_.world) + static_cast<int64_t>(index));
  failure.ns = monotonic_ns();
  failure.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  failure.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  if (const auto reported = slot.failure()) {
    failure.ns = reported->ns;
    failure.code = code_of(reported->code);
    failure.message = reported->message;
  }
  failure.peak_kib = usage.ru_maxrss;
  failure.host_was_short = failure.signal == SIGKILL && out_of_memory_kills() > kills_before_;
  return failure;
}

void Supervisor::on_failure(const RankFailure& failure) {
  // It may follow from the death of ranks that were killed here, or at their node's stop.
  if (attempt_.nodes != nullptr && stop_signal_ != 0 && is_victim(failure)) killed_at_stop_ = true;
  if (killed_at_stop_) return;
  failures_.push_back(failure);
  if (aborting_) return;
  if (is_victim(failure)) {
    if (!behind_ && waited_in_vain(failure)) behind_ = rank_behind(failure);
    const bool waits = abort_at_ == 0 && attempt_.nodes == nullptr;  // else for the nodes' verdict
    if (waits) abort_at_ = monotonic_seconds() + kCauseWait;
  } else {
    abort_all();
  }
}

void Supervisor::abort_all() {
  aborting_ = true;
  abort_at_ = 0;
  attempt_.board.set_aborting();
  signal_all(SIGTERM);
  kill_at_ = monotonic_seconds() + attempt_.options.patience.after_failure;
}

void Supervisor::signal_all(int signal) {
  for (Rank& rank : ranks_) {
    if (!rank.alive) continue;
    rank.stop_sent = true;
    ::kill(rank.pid, signal);
  }
}

void Supervisor::kill_all() {
  kill_at_ = 0;
  if (give_up_at_ == 0) give_up_at_ = monotonic_seconds() + kKilledWait;
  if (fork_server_.pid > 0) ::kill(fork_server_.pid, SIGKILL);
  for (Rank& rank : ranks_) {
    if (!rank.alive) continue;
    rank.kill_sent = true;
    ::kill(rank.pid, SIGKILL);
  }
}

void Supervisor::check_deadlines() {
  const double now = monotonic_seconds();
  if (attempt_.starter != 0 && stop_signal_ == 0 && ::getppid() != attempt_.starter) {
    clear_live_bar();
    warn("process {}, which started this launcher, is gone", attempt_.starter);
    on_stop_signal(SIGTERM);
  }
  if (abort_at_ > 0 && now >= abort_at_) abort_all();
  if (kill_at_ > 0 && now >= kill_at_) {
    if (!aborting_) {
      killed_at_stop_ = true;
      clear_live_bar();
      warn("killing the ranks that have not stopped in time");
    }
    kill_all();
  }
  if (stop_signal_ == 0 && !aborting_) check_heartbeats(now);
}

int Supervisor::stop_code() const {
  const bool all_done = std::all_of(
      ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.code == 0 && !r.kill_sent; });
  if (stop_signal_ == SIGINT) return code_of(Exit::kInterrupted);
  if (stop_signal_ != 0 && (ranks_.empty() || !all_done)) return code_of(Exit::kStopped);
  for (const Rank& rank : ranks_) {
    if (rank.code == code_of(Exit::kInterrupted)) return rank.code;
  }
  for (const Rank& rank : ranks_) {
    if (rank.code == code_of(Exit::kStopped)) return rank.code;
  }
  return 0;
}

Outcome Supervisor::local_outcome() const {
  Outcome result;
  if (!started_.error.empty()) {
    result.code = code_of(started_.code);
    result.error = started_.error;
    result.restartable = result.resumable = started_.code == Exit::kRankDied;
  } else if (hang_) {
    result.code = code_of(Exit::kRankDied);
    result.error =
        hang_text(attempt_.options.hang_timeout.seconds) + behind_text(*hang_, host_name());
    result.restartable = true;
    result.resumable = true;
    result.cause = "no progress in phase " + hang_->phase;
    result.iteration = hang_->iteration;
  } else if (behind_ && waited_in_vain(first_failure(failures_))) {
    result.code = code_of(Exit::kRankDied);
    result.error = vain_wait_text(*behind_, first_failure(failures_), host_name());
    result.restartable = true;
    result.resumable = true;
    result.cause = "waited in vain in phase " + behind_->phase;
    result.iteration = behind_->iteration;
  } else if (!failures_.empty()) {
    const RankFailure& first = first_failure(failures_);
    result.code = exit_code(first);
    result.error = failure_text(first, host_name(), attempt_.world.ranks.nodes);
    result.restartable = is_restartable(first);
    result.resumable = first.iteration > 0 || result.restartable;
    result.cause = cause_of(first);
    result.iteration = first.iteration;
  } else {
    result.code = stop_code();
    result.killed_at_stop = killed_at_stop_;
  }
  return result;
}

}  // namespace gantrain
