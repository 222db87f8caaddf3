// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "launch/supervise.h"

namespace gantrain {

// launch() in a process of its own, as `gantrain` would call it, with its output collected.
class Launcher {
 public:
  struct Result {
    int code = -1;  // exit code, or 128 + signal
    std::string out;
    std::string err;
    double seconds = 0;
  };

  Launcher(RankMain main, int64_t nproc, LaunchOptions options = {});
  Launcher(LoadTrainer load, const World& world, const LaunchOptions& options);
  ~Launcher();  // kills what is left

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Until standard error holds the text; false after five seconds.
  bool wait_for(const std::string& text);
  // Until all writers of its output are gone, that is: every process.
  Result wait();

 private:
  void start(const LoadTrainer& load, const World& world, const LaunchOptions& options);
  bool read_some(int milliseconds);

  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  double started_ = 0;
  Result result_;
};

// What ranks say to a test: eight numbers in shared memory.
int64_t& shared_number(size_t index);
void clear_shared_numbers();

// False for zombies too.
bool is_alive(pid_t pid);

bool eventually(const std::function<bool()>& holds, double seconds);

}  // namespace gantrain
