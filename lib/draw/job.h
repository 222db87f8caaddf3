// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <array>
#include <cstdint>
#include <string>

namespace gantrain {

// A job of many pictures. On a terminal a line on standard error counts them. SIGINT, SIGTERM and
// SIGHUP, unless ignored, wait while it lives, and end the process between two steps or at the end:
// never inside of a file, whichever thread they are delivered to. One job at a time.
class Job {
 public:
  Job(int64_t count, const std::string& what);  // "frames"
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // One picture is done.
  void step();
  // So many pictures are done.
  void step_to(int64_t done);
  // Returns the signal that waits, or 0, and takes it from those that end the process: the caller
  // saves its work and ends by itself.
  int take_signal();

 private:
  void let_signals_in();

  int64_t count_;
  int64_t done_ = 0;
  std::string what_;
  bool live_;
  double drawn_at_ = 0;
  std::array<struct sigaction, 3> before_{};
};

}  // namespace gantrain
