// SPDX-License-Identifier: Apache-2.0
#include "core/parallel.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <omp.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace gantrain {

void parallel_for(int64_t begin,
                  int64_t end,
                  int64_t grain,
                  const std::function<void(int64_t, int64_t)>& body) {
  at::parallel_for(begin, end, grain, body);
}

bool BusyMachine::observe(double waited) {
  calm_ = waited < kCalm ? calm_ + 1 : 0;
  busy_ = waited > kBusy || (busy_ && calm_ < kCalmTimes);
  return busy_;
}

std::optional<int64_t> core_wait_ns(int64_t thread_id) {
  const std::string path = fmt::format("/proc/self/task/{}/schedstat", thread_id);
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return std::nullopt;
  long long ran = 0, waited = 0;
  const int numbers = std::fscanf(file, "%lld %lld", &ran, &waited);
  std::fclose(file);
  if (numbers != 2) return std::nullopt;
  return waited;
}

struct SurplusThreads::Team {
  std::mutex mutex;
  std::condition_variable changed;
  bool formed = false, leaves = false;
  std::thread leader;  // its end frees the team

  void run() {
    // With its leader the team is larger than the number of cores by one. GCC leaves an empty
    // region out.
    std::atomic<int> members{0};
#pragma omp parallel num_threads(omp_get_num_procs() + 1)
    ++members;
    std::unique_lock lock(mutex);
    formed = true;
    changed.notify_all();
    changed.wait(lock, [this] { return leaves; });
  }
};

SurplusThreads::SurplusThreads() : team_(std::make_unique<Team>()) {
  team_->leader = std::thread([team = team_.get()] { team->run(); });
  std::unique_lock lock(team_->mutex);
  team_->changed.wait(lock, [this] { return team_->formed; });
}

SurplusThreads::~SurplusThreads() {
  {
    const std::lock_guard lock(team_->mutex);
    team_->leaves = true;
  }
  team_->changed.notify_all();
  team_->leader.join();
}

void leave_busy_cores(int64_t thread_id) {
  constexpr auto kPeriod = std::chrono::milliseconds(250);
  BusyMachine machine;
  std::optional<SurplusThreads> surplus;
  std::optional<int64_t> before = core_wait_ns(thread_id);
  for (auto began = std::chrono::steady_clock::now(); before;) {
    std::this_thread::sleep_for(kPeriod);
    const auto now = std::chrono::steady_clock::now();
    const std::optional<int64_t> waited = core_wait_ns(thread_id);
    if (!waited) return;
    const double span = std::chrono::duration<double, std::nano>(now - began).count();
    const bool busy = machine.observe(static_cast<double>(*waited - *before) / span);
    if (busy && !surplus) surplus.emplace();
    if (!busy) surplus.reset();
    before = waited;
    began = now;
  }
}

void use_threads(int64_t threads) {
  at::set_num_threads(static_cast<int>(threads));
  static bool watched = false;
  if (threads < 2 || watched || std::getenv("GANTRAIN_WATCH_THREADS") == nullptr) return;
  watched = true;
  std::thread(leave_busy_cores, gettid()).detach();
}

}  // namespace gantrain
