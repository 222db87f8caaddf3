// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/local/processes.h"

namespace gantrain {

// Trainings, and other commands, of this program as its children. They die with this process,
// however it dies; what asks this process to stop is passed on to them, and they save. One object a
// process, which must have no threads.
class Children {
 public:
  struct Start {
    std::vector<std::string> arguments;              // behind the program's name
    std::map<std::string, std::string> environment;  // beside this process's own
    std::string output;                              // file for standard error; "": this one's own
    bool answers = true;  // standard output is this one's own; else it goes to standard error, too
  };
  struct End {
    size_t id = 0;
    int code = 0;  // exit code; 128 + the signal that killed it
  };

  // Starts the program again. Throws UserError(kEnvironment) where no process can be started.
  void start(size_t id, const Start& start);
  // Waits until one has ended, and passes on signals meanwhile. There must be one.
  End wait();
  // The same for so many seconds; nothing where none has ended then.
  std::optional<End> wait_for(double seconds);
  // Asks all that are there to save and stop.
  void stop_all(int signal);
  size_t count() const { return ids_.size(); }
  // The first signal that asked this process to stop; 0: none did.
  int stop_signal();

 private:
  void pass_on_signals();
  std::optional<End> reap();

  SignalGate gate_;
  std::map<pid_t, size_t> ids_;
  int stop_signal_ = 0;
};

// The exit code of a race or a run that a signal has stopped.
int code_of_stop(int signal);

}  // namespace gantrain
