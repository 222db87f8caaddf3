// SPDX-License-Identifier: Apache-2.0
#include "train/write_pace.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

namespace gantrain {

namespace {

constexpr double kRestOfWork = 3;  // seconds of rest for one of work

// Seconds for which this thread has used a processor.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

WritePace::WritePace(std::function<double()> used, double longest)
    : used_(used ? std::move(used) : thread_seconds), longest_(longest) {}

void WritePace::begin() { worked_ = used_(); }

void WritePace::rest() {
  const std::chrono::duration<double> pause(std::min(kRestOfWork * (used_() - worked_), longest_));
  std::unique_lock lock(mutex_);
  hurried_.wait_for(lock, pause, [this] { return hurry_; });
  worked_ = used_();
}

void WritePace::hurry() {
  {
    const std::lock_guard lock(mutex_);
    hurry_ = true;
  }
  hurried_.notify_all();
}

void WritePace::relax() {
  const std::lock_guard lock(mutex_);
  hurry_ = false;
}

}  // namespace gantrain
