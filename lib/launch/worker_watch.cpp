// SPDX-License-Identifier: Apache-2.0
#include "launch/worker_watch.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "launch/node_council.h"
#include "launch/signals.h"
#include "util/block_signals.h"
#include "util/error.h"
#include "util/log.h"
#include "util/time.h"

namespace gantrain {

namespace {

// All of these are in seconds.
constexpr double kStep = 0.25;      // between two looks
constexpr double kMuchTooLate = 1;  // a look that comes so late: this process was stopped
constexpr double kOrphanGrace = 10;
constexpr double kMeetingGrace = 0.5;  // for a meeting that ends by itself just then

}  // namespace

WorkerWatch::WorkerWatch(RankStatusBoard& board,
                         const LaunchOptions& options,
                         pid_t starter,
                         WatchReport report,
                         WatchStop stop)
    : board_(board),
      options_(options),
      report_(std::move(report)),
      stop_(std::move(stop)),
      starter_(starter),
      watch_from_(monotonic_seconds()) {
  // The thread must take no signal: the rank's handlers set flags that the main thread reads.
  const BlockSignals blocked;
  thread_ = std::thread([this] { watch(); });
}

WorkerWatch::~WorkerWatch() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void WorkerWatch::watch() {
  std::unique_lock lock(mutex_);
  double expected = monotonic_seconds() + kStep;
  while (!ended_.wait_for(lock, std::chrono::duration<double>(kStep), [this] { return end_; })) {
    const double now = monotonic_seconds();
    if (now - expected > kMuchTooLate) watch_from_ = now;
    look(now);
    expected = monotonic_seconds() + kStep;
  }
}

void WorkerWatch::look(double now) {
  if (const int signal = stop_requested(); signal != 0 && board_.slot(0).phase() == "rendezvous") {
    if (stop_ends_ == 0) stop_ends_ = now + kMeetingGrace;
    if (now >= stop_ends_) {
      const int code = stopped_outcome(signal).code;
      stop_(code);
      ::_exit(code);
    }
  }
  if (starter_ > 0 && orphan_ends_ == 0 && ::getppid() != starter_) {
    const double grace = std::min(options_.grace.seconds, kOrphanGrace);
    orphan_ends_ = now + grace;
    warn("process {}, which started this worker, is gone: saving and stopping, at most {}",
         starter_,
         short_duration(grace));
    ::kill(::getpid(), SIGTERM);
  }
  if (orphan_ends_ > 0) {
    if (now >= orphan_ends_) {
      end_process(Exit::kStopped, "it did not stop in time after its launcher was gone");
    }
    return;
  }
  const int64_t beat = board_.slot(0).heartbeat_ns();
  const double allowed = options_.hang_timeout.seconds;
  if (allowed <= 0 || beat == 0) return;
  const double since = std::max(static_cast<double>(beat) / 1e9, watch_from_);
  if (now - since <= allowed) return;
  end_process(Exit::kRankDied,
              fmt::format("no progress for {} (--hang-timeout): this rank hangs, or waits for "
                          "another one that does",
                          short_duration(allowed)));
}

void WorkerWatch::end_process(Exit code, const std::string& reason) {
  board_.slot(0).report_failure(code, reason);
  report_(reason);
  ::_exit(static_cast<int>(code));
}

}  // namespace gantrain
