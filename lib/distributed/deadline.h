// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "util/error.h"

namespace gantrain {

// Ends this process if it still exists after `seconds`: for calls that may never return and take no
// timeout. A thread throws UserError(code) with `message`, which nothing catches, so that the
// process reports it as it does with every uncaught exception, and dies of SIGABRT.
class Deadline {
 public:
  Deadline(double seconds, Exit code, std::string message);
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace gantrain
