// SPDX-License-Identifier: Apache-2.0
#include "draw/job.h"

#include <array>
#include <csignal>

#include "report/console.h"
#include "util/log.h"
#include "util/time.h"

namespace gantrain {

namespace {

constexpr std::array<int, 3> kWaiting = {SIGINT, SIGTERM, SIGHUP};

// What a handler can reach. Blocking the signals in this thread would not do: LibTorch's threads,
// started earlier, would take them.
volatile std::sig_atomic_t arrived = 0;

void note_arrival(int signal) { arrived = signal; }

}  // namespace

Job::Job(int64_t count, const std::string& what)
    : count_(count), what_(what), live_(detect_terminal().live), drawn_at_(monotonic_seconds()) {
  for (size_t i = 0; i < kWaiting.size(); ++i) {
    sigaction(kWaiting[i], nullptr, &before_[i]);
    if (before_[i].sa_handler == SIG_IGN) continue;
    struct sigaction waits = {};
    waits.sa_handler = note_arrival;
    waits.sa_flags = SA_RESTART;
    sigaction(kWaiting[i], &waits, nullptr);
  }
}

Job::~Job() {
  if (live_) set_live_line("");
  for (size_t i = 0; i < kWaiting.size(); ++i) sigaction(kWaiting[i], &before_[i], nullptr);
  if (arrived != 0) raise(arrived);
}

void Job::step() { step_to(done_ + 1); }

void Job::step_to(int64_t done) {
  done_ = done;
  let_signals_in();
  constexpr double kSeconds = 0.1;  // between two redraws
  const double now = monotonic_seconds();
  if (!live_ || now - drawn_at_ < kSeconds) return;
  drawn_at_ = now;
  set_live_line(fmt::format(" {}/{} {}", done_, count_, what_));
}

int Job::take_signal() {
  const int signal = arrived;
  arrived = 0;
  return signal;
}

void Job::let_signals_in() {
  if (arrived == 0) return;
  if (live_) set_live_line("");
  for (size_t i = 0; i < kWaiting.size(); ++i) sigaction(kWaiting[i], &before_[i], nullptr);
  raise(arrived);  // here it ends
}

}  // namespace gantrain
