// SPDX-License-Identifier: Apache-2.0
#include "launch/local/signals.h"

#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "util/error.h"
#include "util/log.h"

namespace gantrain {

namespace {

// Signal handlers have no parameters: what they need is here, set once per process.
std::atomic<int> g_stop{0};
RankStatusBoard* g_board = nullptr;
RankSlot* g_slot = nullptr;
int g_stack_file = -1;
std::atomic<int64_t> g_interrupt_ns{0};
constexpr int64_t kSameInterruptNs =
    500'000'000;  // a terminal's and a launcher's copy of one Ctrl-C

void on_stop(int signal) {
  if (g_board->aborting()) _exit(static_cast<int>(Exit::kRankDied));
  if (signal == SIGINT) {
    const int64_t now = monotonic_ns();
    const int64_t before = g_interrupt_ns.exchange(now);
    if (before != 0 && now - before > kSameInterruptNs) _exit(static_cast<int>(Exit::kInterrupted));
  }
  int none = 0;
  g_stop.compare_exchange_strong(none, signal);
}

// Text for standard error that a signal handler makes: without allocating, and with no call that is
// not async-signal-safe. What does not fit is left out.
class SafeLine {
 public:
  SafeLine& add(const char* text) {
    const size_t length = std::min(std::strlen(text), text_.size() - size_);
    std::memcpy(text_.data() + size_, text, length);
    size_ += length;
    return *this;
  }
  // "SIGINT"
  SafeLine& add_name(int signal) { return add("SIG").add(sigabbrev_np(signal)); }
  void write() const {
    [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, text_.data(), size_);
  }

 private:
  std::array<char, 160> text_{};
  size_t size_ = 0;
};

// The stack goes through a file in memory, since naming frames without allocating needs one.
void report_stack(int signal, void* const* frames, int count) {
  static std::array<char, RankSlot::kStackBytes> text;
  backtrace_symbols_fd(frames, count, g_stack_file);
  const ssize_t size = ::pread(g_stack_file, text.data(), text.size(), 0);
  g_slot->report_crash(signal, {text.data(), static_cast<size_t>(std::max<ssize_t>(size, 0))});
}

void on_crash(int signal) {
  g_slot->report_failure(Exit::kInternal, "");
  std::array<void*, 64> frames{};
  const int count = backtrace(frames.data(), frames.size());
  report_stack(signal, frames.data(), count);
  // A frozen terminal would keep this process from ending.
  if (standard_error_takes_text()) {
    SafeLine().add("crash: ").add_name(signal).add("; stack of the thread that crashed:\n").write();
    backtrace_symbols_fd(frames.data(), count, STDERR_FILENO);
  }
  ::signal(signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  raise(signal);
}

[[noreturn]] void on_terminate() {
  try {
    if (const std::exception_ptr current = std::current_exception())
      std::rethrow_exception(current);
  } catch (const UserError& e) {
    g_slot->report_failure(e.code(), e.what());
  } catch (const std::exception& e) {
    g_slot->report_failure(Exit::kInternal, e.what());
  } catch (...) {
    g_slot->report_failure(Exit::kInternal, "an exception of unknown type");
  }
  std::abort();
}

void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

void install_crash_handlers() {
  alignas(16) static std::array<char, 64 * 1024> stack;  // where a stack overflow is handled
  stack_t alternative{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  sigaltstack(&alternative, nullptr);
  void* frame = nullptr;
  backtrace(&frame, 1);  // loads the unwinder now: loading it allocates
  if (g_stack_file < 0) g_stack_file = memfd_create("crash", MFD_CLOEXEC);
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) {
    handle(signal, on_crash, SA_ONSTACK);
  }
  std::set_terminate(on_terminate);
}

}  // namespace

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal)
                         : fmt::format("signal {} (SIG{})", signal, name);
}

int stop_requested() { return g_stop.load(std::memory_order_relaxed); }
const std::atomic<int>& stop_flag() { return g_stop; }

void install_rank_signals(RankStatusBoard& board, int64_t index, bool interrupt_stops) {
  g_board = &board;
  g_slot = &board.slot(index);
  install_crash_handlers();
  handle(SIGHUP, SIG_IGN, 0);
  handle(SIGPIPE, SIG_IGN, 0);
  handle(SIGINT, interrupt_stops ? on_stop : SIG_IGN, SA_RESTART);
  handle(SIGTERM, on_stop, SA_RESTART);
  handle(SIGUSR1, on_stop, SA_RESTART);
}

SignalGate::SignalGate() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGUSR1}) sigaddset(&wanted, signal);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaddset(&wanted, SIGHUP);
  handle(SIGPIPE, SIG_IGN, 0);
  handle(SIGCHLD, SIG_DFL, 0);  // an ignored one, as some parents leave it, hides exit statuses
  sigprocmask(SIG_BLOCK, &wanted, &original_mask_);
  descriptor_ = UniqueFd(signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!descriptor_) fail(Exit::kEnvironment, "cannot open a signalfd: {}", errno_text());
}

SignalGate::~SignalGate() {
  while (next()) continue;
  sigprocmask(SIG_SETMASK, &original_mask_, nullptr);
}

std::optional<int> SignalGate::next() {
  signalfd_siginfo event{};
  ssize_t size = 0;
  do {
    size = ::read(descriptor_.get(), &event, sizeof event);
  } while (size < 0 && errno == EINTR);
  if (size != static_cast<ssize_t>(sizeof event)) return std::nullopt;
  return static_cast<int>(event.ssi_signo);
}

namespace {

// A signal handler has no parameters: what it needs is here, set once before it is installed.
bool g_training = false;
pid_t g_main_process = 0;
std::atomic<bool> g_late{false};

// Only async-signal-safe calls.
void on_early_signal(int signal) {
  if (g_late.load()) return;
  const int other = g_training ? static_cast<int>(Exit::kStopped) : 128 + signal;
  const int code = signal == SIGINT ? static_cast<int>(Exit::kInterrupted) : other;
  // A frozen terminal must not keep this process from ending.
  if (::getpid() == g_main_process && standard_error_takes_text()) {
    const char number[] = {
        static_cast<char>('0' + signal / 10), static_cast<char>('0' + signal % 10), '\0'};
    SafeLine()
        .add("stopped by signal ")
        .add(signal < 10 ? number + 1 : number)
        .add(" (")
        .add_name(signal)
        .add(g_training
                 ? ") before the training began; nothing was lost, the same command starts it\n"
                 : ")\n")
        .write();
  }
  ::_exit(code);
}

void end_on(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  if (action.sa_handler != SIG_IGN) handle(signal, on_early_signal, SA_RESTART);
}

}  // namespace

void end_on_early_signals(bool training) {
  g_training = training;
  g_main_process = ::getpid();
  end_on(SIGINT);
  end_on(SIGTERM);
  if (!training) return;
  end_on(SIGUSR1);
  end_on(SIGHUP);
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
