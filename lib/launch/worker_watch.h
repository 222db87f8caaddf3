// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "launch/options.h"
#include "launch/rank_status_board.h"

namespace gantrain {

// Says what is to be printed when a worker is ended by its watch; `reason` is one line without a
// newline.
using WatchReport = std::function<void(const std::string& reason)>;
// Records that a worker ended by a stop, with that exit code.
using WatchStop = std::function<void(int code)>;

// Sees to a worker of torchrun, srun or mpirun as our own launcher sees to its ranks. A thread
// looks several times a second:
// - If `starter`, the process that started the worker, is gone, the worker is asked to save and
//   stop, as by SIGTERM. If it has not ended after the grace time, but at most ten seconds, it is
//   ended with 75.
// - If the rank gives no sign of life for the hang timeout, the worker is ended with 6. The time
//   counts from the first sign of life on, and anew after the process was stopped (SIGSTOP) or the
//   machine slept.
// - If a stop is asked for while the ranks still meet, where nothing looks at it, the worker is
//   ended with the stop's code: it has nothing to save.
// `report` or `stop` is called on that thread before the process is ended. The board must have one
// slot.
class WorkerWatch {
 public:
  // `starter`: the parent, taken before anything that lasts; 0: it may end before the worker.
  WorkerWatch(RankStatusBoard& board,
              const LaunchOptions& options,
              pid_t starter,
              WatchReport report,
              WatchStop stop);
  ~WorkerWatch();  // ends the watch
  WorkerWatch(const WorkerWatch&) = delete;
  WorkerWatch& operator=(const WorkerWatch&) = delete;

 private:
  void watch();
  void look(double now);
  [[noreturn]] void end_process(Exit code, const std::string& reason);

  RankStatusBoard& board_;
  const LaunchOptions options_;
  const WatchReport report_;
  const WatchStop stop_;
  const pid_t starter_;
  double watch_from_ = 0;   // monotonic seconds; silence is counted from here at the earliest
  double stop_ends_ = 0;    // when a worker that was to stop while it met is ended; 0: it was not
  double orphan_ends_ = 0;  // when an orphan is ended; 0: it is none
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace gantrain
