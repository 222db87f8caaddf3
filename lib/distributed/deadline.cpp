// SPDX-License-Identifier: Apache-2.0
#include "distributed/deadline.h"

#include <chrono>

namespace gantrain {

Deadline::Deadline(double seconds, Exit code, std::string message)
    : thread_([this, seconds, code, message = std::move(message)] {
        std::unique_lock<std::mutex> lock(mutex_);
        const bool in_time =
            ended_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return over_; });
        if (!in_time) throw UserError(code, message);
      }) {}

Deadline::~Deadline() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

}  // namespace gantrain
