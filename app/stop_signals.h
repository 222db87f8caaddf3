// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <string>

namespace gantrain {

// While it lives, Ctrl-C and SIGTERM do not end this process: the first one is only noted, so that
// long work can leave its files in order; a second one ends the process as usual.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool asked() const;
  // Throws UserError with 128 and the signal's number, which is 130 for Ctrl-C, and with "stopped"
  // and the text as its message.
  [[noreturn]] void leave(const std::string& text) const;

 private:
  struct sigaction interrupt_before_ {};
  struct sigaction terminate_before_ {};
};

}  // namespace gantrain
