// SPDX-License-Identifier: Apache-2.0
#include "core/parallel.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "core/idle_threads.h"

namespace gantrain {

void parallel_for(int64_t begin,
                  int64_t end,
                  int64_t grain,
                  const std::function<void(int64_t, int64_t)>& body) {
  at::parallel_for(begin, end, grain, body);
}

void use_threads(int64_t threads) {
  at::set_num_threads(static_cast<int>(threads));
  static bool watched = false;
  if (threads < 2 || watched || std::getenv("GANTRAIN_WATCH_THREADS") == nullptr) return;
  watched = true;
  std::thread(leave_busy_cores, gettid()).detach();
}

}  // namespace gantrain
