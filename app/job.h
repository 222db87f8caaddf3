// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <cstdint>
#include <string>

namespace gantrain {

// A job of many pictures. On a terminal a line on standard error counts them. SIGINT, SIGTERM and
// SIGHUP wait while it lives, and end the process between two steps or at the end: never inside of
// a file. Threads that are started meanwhile inherit that.
class Job {
 public:
  Job(int64_t count, const std::string& what);  // "frames"
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // One picture is done.
  void step();

 private:
  void let_signals_in();

  int64_t count_;
  int64_t done_ = 0;
  std::string what_;
  bool live_;
  double drawn_at_ = 0;
  sigset_t waiting_{};
  sigset_t before_{};
};

}  // namespace gantrain
