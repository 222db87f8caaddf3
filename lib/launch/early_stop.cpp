// SPDX-License-Identifier: Apache-2.0
#include "launch/early_stop.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "launch/signals.h"
#include "util/error.h"
#include "util/standard_error.h"

namespace gantrain {

namespace {

// A signal handler has no parameters: what it needs is here, set once before it is installed.
bool g_training = false;
pid_t g_main_process = 0;
std::atomic<bool> g_late{false};

// The signal's number and name in 24 characters at most, without allocating.
const char* name_of(int signal) {
  switch (signal) {
    case SIGINT:
      return "signal 2 (SIGINT)";
    case SIGTERM:
      return "signal 15 (SIGTERM)";
    case SIGHUP:
      return "signal 1 (SIGHUP)";
    default:
      return "signal 10 (SIGUSR1)";
  }
}

// Appends without allocating; what does not fit is left out.
class Line {
 public:
  void add(const char* text) {
    const size_t length = std::min(std::strlen(text), text_.size() - size_);
    std::memcpy(text_.data() + size_, text, length);
    size_ += length;
  }
  void write() const {
    [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, text_.data(), size_);
  }

 private:
  std::array<char, 160> text_{};
  size_t size_ = 0;
};

// Only async-signal-safe calls.
void on_early_signal(int signal) {
  if (g_late.load()) return;
  const int other = g_training ? static_cast<int>(Exit::kStopped) : 128 + signal;
  const int code = signal == SIGINT ? static_cast<int>(Exit::kInterrupted) : other;
  // A frozen terminal must not keep this process from ending.
  if (::getpid() == g_main_process && standard_error_takes_text()) {
    Line line;
    line.add("stopped by ");
    line.add(name_of(signal));
    line.add(g_training
                 ? " before the training began; nothing was lost, the same command starts it\n"
                 : "\n");
    line.write();
  }
  ::_exit(code);
}

void install(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  if (action.sa_handler == SIG_IGN) return;
  action = {};
  action.sa_handler = on_early_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void end_on_early_signals(bool training) {
  g_training = training;
  g_main_process = ::getpid();
  install(SIGINT);
  install(SIGTERM);
  if (!training) return;
  install(SIGUSR1);
  install(SIGHUP);
}

void ignore_late_signals() { g_late = true; }

bool is_stop_code(int code) {
  return code == static_cast<int>(Exit::kStopped) || code == static_cast<int>(Exit::kInterrupted);
}

std::string early_stop_text(int signal, int64_t iteration) {
  if (iteration == 0) {
    return fmt::format("stopped by {} before the first iteration; nothing was lost",
                       signal_text(signal));
  }
  return fmt::format(
      "stopped by {} at iteration {} before it could save; what came after the last save is lost",
      signal_text(signal),
      iteration);
}

}  // namespace gantrain
