// SPDX-License-Identifier: Apache-2.0
#include "stop_signals.h"

#include <atomic>

#include "util/error.h"

namespace gantrain {

namespace {

// A signal handler reaches nothing but globals.
std::atomic<int>& received() {
  static std::atomic<int> signal = 0;
  return signal;
}

extern "C" void note_signal(int signal) { received() = signal; }

}  // namespace

StopSignals::StopSignals() {
  received() = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, &interrupt_before_);
  sigaction(SIGTERM, &action, &terminate_before_);
  // In the background of a shell script Ctrl-C is ignored, and stays so.
  if (interrupt_before_.sa_handler == SIG_IGN) sigaction(SIGINT, &interrupt_before_, nullptr);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &interrupt_before_, nullptr);
  sigaction(SIGTERM, &terminate_before_, nullptr);
}

bool StopSignals::asked() const { return received() != 0; }

void StopSignals::leave(const std::string& text) const {
  fail(static_cast<Exit>(128 + received().load()), "stopped{}", text);
}

}  // namespace gantrain
