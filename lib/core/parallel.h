// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace gantrain {

// LibTorch's at::parallel_for, compiled in one place with OpenMP: in a source without OpenMP that
// template runs on one thread and says nothing. Its threads call body(from, to) for parts of
// [begin, end), at least `grain` long where there are several; inside of another parallel region
// the calling thread does it all. Rethrows what one of them threw.
void parallel_for(int64_t begin,
                  int64_t end,
                  int64_t grain,
                  const std::function<void(int64_t, int64_t)>& body);

// From here on, operators that this thread calls use so many threads. Where gantrain has chosen how
// idle threads wait (idle_threads() of launch/where/devices.h), it is watched from now on, four
// times a second, whether this thread gets a core when it wants one; while it does not, because
// other programs compute, idle threads sleep at once.
void use_threads(int64_t threads);

// Decides whether idle threads should leave their cores to others.
class BusyMachine {
 public:
  // `waited`: the share of the last quarter of a second that the computing thread waited for a
  // core. True from the first share above kBusy on, until kCalmTimes shares in a row are below
  // kCalm.
  bool observe(double waited);

  static constexpr double kBusy = 0.2, kCalm = 0.05;
  static constexpr int64_t kCalmTimes = 8;

 private:
  bool busy_ = false;
  int64_t calm_ = 0;
};

// How long a thread of this process has waited for a core since it began, in nanoseconds; nothing
// where the kernel does not tell (/proc/self/task/ID/schedstat).
std::optional<int64_t> core_wait_ns(int64_t thread_id);

// While one lives, GNU OpenMP has more threads than there are cores, and then lets idle ones spin
// for some 20 us only before they sleep; without one, as long as GOMP_SPINCOUNT says. The library
// offers no other way to change this while it runs. The surplus threads sleep.
class SurplusThreads {
 public:
  SurplusThreads();
  ~SurplusThreads();
  SurplusThreads(const SurplusThreads&) = delete;
  SurplusThreads& operator=(const SurplusThreads&) = delete;

 private:
  struct Team;
  std::unique_ptr<Team> team_;
};

// Lets idle threads sleep at once while that thread of this process waits for a core that another
// program has, and looks four times a second. Returns only where the kernel does not tell.
void leave_busy_cores(int64_t thread_id);

}  // namespace gantrain
