// SPDX-License-Identifier: Apache-2.0
#include "job.h"

#include "report/console.h"
#include "util/log.h"
#include "util/time.h"

namespace gantrain {

Job::Job(int64_t count, const std::string& what)
    : count_(count), what_(what), live_(detect_terminal().live), drawn_at_(monotonic_seconds()) {
  sigemptyset(&waiting_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&waiting_, signal);
  pthread_sigmask(SIG_BLOCK, &waiting_, &before_);
}

Job::~Job() {
  if (live_) set_live_line("");
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Job::step() {
  ++done_;
  let_signals_in();
  constexpr double kSeconds = 0.1;  // between two redraws
  const double now = monotonic_seconds();
  if (!live_ || now - drawn_at_ < kSeconds) return;
  drawn_at_ = now;
  set_live_line(fmt::format(" {}/{} {}", done_, count_, what_));
}

void Job::let_signals_in() {
  sigset_t pending;
  sigpending(&pending);
  bool any = false;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    any = any || sigismember(&pending, signal) == 1;
  if (!any) return;
  if (live_) set_live_line("");
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);  // here it ends, unless the signal is ignored
  pthread_sigmask(SIG_BLOCK, &waiting_, nullptr);
}

}  // namespace gantrain
