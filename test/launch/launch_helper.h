// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "launch/local/supervise.h"
#include "support/reserved_port.h"

namespace gantrain {

// launch() in a process of its own, as `gantrain` would call it, with its output collected.
class Launcher {
 public:
  struct Result {
    int code = -1;  // exit code, or 128 + signal
    std::string out;
    std::string err;
    double ended = 0;         // monotonic seconds at which the last of its processes was gone
    double after_signal = 0;  // seconds from the last signal() to the end
  };

  Launcher(RankMain main, int64_t nproc, LaunchOptions options = {});
  // Its command names the folder `runs` (--out), and `run_dir` unless that is "".
  Launcher(LoadTrainer load,
           const World& world,
           const LaunchOptions& options,
           const std::string& run_dir = "");
  // Its ranks are a program of the user's.
  Launcher(const Program& program, const World& world, const LaunchOptions& options = {});
  ~Launcher();  // kills what is left

  // LaunchSpec::record of the launchers that are made from then on, in their own processes.
  static inline RecordEnd record = {};

  pid_t pid() const { return pid_; }
  // Returns when the launcher has taken the signal, so that the next one is not merged with it.
  void signal(int number);
  // Until standard error holds the text; false after half a minute.
  bool wait_for(const std::string& text);
  // Until all writers of its output are gone, that is: every process.
  Result wait();

 private:
  void start(const LoadTrainer& load,
             const World& world,
             const LaunchOptions& options,
             const std::string& run_dir = "",
             const Program* program = nullptr);
  bool read_some(int milliseconds);

  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  double signalled_ = 0;
  Result result_;
};

// What ranks do that have nothing to do.
[[noreturn]] void sleep_for_ever();
int done(const RankContext& context, const char* request_json);

// What ranks say to a test: sixteen numbers in shared memory, the eighth of them for mark_now.
int64_t& shared_number(size_t index);
void clear_shared_numbers();

// Seconds on the clock of `Result::ended` at which a rank called mark_now(), from shared memory.
void mark_now();
double marked();

// False for zombies too.
bool is_alive(pid_t pid);

World local_world(int64_t nproc);

// One of the nodes of a run on this machine, all with that port of node 0.
struct NodesShape {
  int64_t nodes = 2;
  int64_t ranks = 1;  // of each node
};
World node(int64_t number, const ReservedPort& port, NodesShape shape = {});
// At once, and so often.
LaunchOptions restarting(int64_t restarts);

bool eventually(const std::function<bool()>& holds, double seconds);

}  // namespace gantrain
