// SPDX-License-Identifier: Apache-2.0
#include "launch/local/processes.h"

#include <execinfo.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "util/error.h"
#include "util/log.h"
#include "util/system.h"

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
  if (g_board->aborting && g_slot->saves) return;
  if (g_board->aborting) _exit(code_of(Exit::kRankDied));
  if (signal == SIGINT) {
    const int64_t now = monotonic_ns();
    const int64_t before = g_interrupt_ns.exchange(now);
    if (before != 0 && now - before > kSameInterruptNs) _exit(code_of(Exit::kInterrupted));
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

// NCCL's watchdog may find the loss of a peer while another thread writes a save.
void wait_for_save() {
  for (int i = 0; g_slot->saves && i < 3000; ++i) ::usleep(10'000);
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
  wait_for_save();
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

// What on_early_signal() needs, set before it is installed.
bool g_training = false;
pid_t g_main_process = 0;
std::atomic<bool> g_late{false};

// Only async-signal-safe calls.
void on_early_signal(int signal) {
  if (g_late.load()) return;
  const int other = g_training ? code_of(Exit::kStopped) : 128 + signal;
  const int code = signal == SIGINT ? code_of(Exit::kInterrupted) : other;
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

void die_with(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(code_of(Exit::kRankDied));
}

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

void ask_name_servers_briefly() { ::setenv("RES_OPTIONS", "timeout:1 attempts:2", 0); }

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
  return code == code_of(Exit::kStopped) || code == code_of(Exit::kInterrupted);
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

std::string proc_file(const std::string& pid, const char* name) {
  std::ifstream file("/proc/" + pid + "/" + name, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();  // a process that ends meanwhile fails the stream; an iterator would throw
  return text.str();
}

std::vector<std::string> all_processes() {
  std::vector<std::string> pids;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name[0] >= '1' && name[0] <= '9') pids.push_back(name);
  }
  return pids;
}

namespace {

// The words of /proc/PID/stat from the state on, which is field 3: "pid (any text) S ppid ...".
// Empty if the process is gone.
std::vector<std::string> stat_of(const std::string& pid) {
  const std::string stat = proc_file(pid, "stat");
  const size_t name_end = stat.rfind(')');  // the name itself may hold brackets and spaces
  if (name_end == std::string::npos) return {};
  std::istringstream words(stat.substr(name_end + 1));
  return {std::istream_iterator<std::string>(words), {}};
}

bool is_dead(const std::vector<std::string>& stat) {
  return stat.empty() || stat[0] == "Z" || stat[0] == "X";
}

pid_t number_of(const std::string& pid) { return static_cast<pid_t>(std::stol(pid)); }

bool reap_all() {  // true: no child is left, so nothing below either
  while (true) {
    const pid_t pid = waitpid(-1, nullptr, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid < 0) return true;
    if (pid == 0) return false;
  }
}

std::set<pid_t>& strangers() {  // see note_strangers()
  static std::set<pid_t> pids;
  return pids;
}

// The living processes below this one: its children, their children and so on, but for strangers.
// Zombies do not count as living.
std::vector<pid_t> living_process_tree() {
  std::multimap<pid_t, pid_t> children;
  std::set<pid_t> dead;
  for (const std::string& pid : all_processes()) {
    const std::vector<std::string> stat = stat_of(pid);
    if (stat.size() < 2) continue;
    children.emplace(number_of(stat[1]), number_of(pid));
    if (is_dead(stat)) dead.insert(number_of(pid));
  }
  std::vector<pid_t> living;
  std::vector<pid_t> open{getpid()};
  while (!open.empty()) {
    const auto [begin, end] = children.equal_range(open.back());
    open.pop_back();
    for (auto child = begin; child != end; ++child) {
      if (strangers().count(child->second) > 0) continue;
      if (dead.count(child->second) == 0) living.push_back(child->second);
      open.push_back(child->second);
    }
  }
  return living;
}

}  // namespace

bool is_stopped(pid_t pid) {
  const std::vector<std::string> stat = stat_of(std::to_string(pid));
  return !stat.empty() && (stat[0] == "T" || stat[0] == "t");
}

bool stopped_too_long(pid_t pid, double& since, double from, double allowed) {
  const double now = monotonic_seconds();
  if (!is_stopped(pid)) {
    since = 0;
    return false;
  }
  if (since == 0) since = now;
  return now - std::max(since, from) > allowed;
}

void note_strangers() {
  for (const pid_t pid : living_process_tree()) strangers().insert(pid);
}

std::vector<pid_t> kill_process_tree(double seconds) {
  const double end = monotonic_seconds() + seconds;
  useconds_t pause = 200;
  while (!reap_all()) {
    const std::vector<pid_t> living = living_process_tree();
    if (monotonic_seconds() > end) return living;
    if (living.empty() && !strangers().empty()) break;  // which would keep reap_all() for ever
    for (const pid_t pid : living) signal_process(pid, SIGKILL);
    ::usleep(pause);
    if (pause < 20'000) pause *= 2;
  }
  return {};
}

namespace {

// Moves the environment to other memory, where this process still reads it.
void move_environment() {
  static std::vector<std::string> variables;
  static std::vector<char*> pointers;
  for (char** each = environ; *each != nullptr; ++each) variables.emplace_back(*each);
  for (std::string& variable : variables) pointers.push_back(variable.data());
  pointers.push_back(nullptr);
  environ = pointers.data();
}

// Makes the environment of this process empty for those who look at it in /proc, so that nobody
// takes it for a rank. Fields 50 and 51 of stat say where it is.
void hide_environment() {
  const std::vector<std::string> fields = stat_of("self");
  constexpr size_t kStart = 50 - 3;  // the first of them is field 3
  if (fields.size() < kStart + 2) return;
  const uintptr_t start = std::stoull(fields[kStart]);
  const uintptr_t end = std::stoull(fields[kStart + 1]);
  if (start != 0 && end > start) std::memset(reinterpret_cast<void*>(start), 0, end - start);
}

void close_all_files() {
  if (::syscall(SYS_close_range, 0, ~0U, 0) != 0) {  // Linux before 5.9
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const auto most = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 4096));
    for (int fd = 0; fd < most; ++fd) ::close(fd);
  }
  // What is opened later must not become a standard stream, into which messages go.
  for (int fd = ::open("/dev/null", O_RDWR); fd >= 0 && fd < STDERR_FILENO;) fd = ::dup(fd);
}

// The kernel sends the signal asked for here when the other process dies.
void wait_for_death_of(pid_t process, const std::function<void()>& look) {
  constexpr timespec kStep{.tv_sec = 0, .tv_nsec = 250'000'000};
  block_signals();
  prctl(PR_SET_PDEATHSIG, SIGUSR2);
  while (::getppid() == process) {
    sigset_t death;
    sigemptyset(&death);
    sigaddset(&death, SIGUSR2);
    ::sigtimedwait(&death, nullptr, look ? &kStep : nullptr);
    if (look && ::getppid() == process) look();
  }
}

constexpr const char* kVariable = "GANTRAIN_LAUNCHER_MARK";
constexpr double kKillSeconds = 5;  // for killing all that is left

// What the processes of one run have in common.
struct Mark {
  std::string variable;  // "NAME=value" and a zero byte, in the environment
  std::string memory;    // " 00:01 1234 ", a file's device and inode in /proc/PID/maps
};

// The device and inode of the mapping that holds the address. A line of the file is
// "start-end permissions offset device inode path".
std::string mapping_of(const void* address) {
  std::istringstream maps(proc_file("self", "maps"));
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string range, permissions, offset, device, inode;
    words >> range >> permissions >> offset >> device >> inode;
    const uintptr_t start = std::stoull(range, nullptr, 16);
    const uintptr_t end = std::stoull(range.substr(range.find('-') + 1), nullptr, 16);
    if (wanted >= start && wanted < end && inode != "0") return " " + device + " " + inode + " ";
  }
  return "";
}

bool has_mark(const std::string& pid, const Mark& mark) {
  const std::string environment = '\0' + proc_file(pid, "environ");
  if (environment.find('\0' + mark.variable) != std::string::npos) return true;
  return !mark.memory.empty() && proc_file(pid, "maps").find(mark.memory) != std::string::npos;
}

std::vector<pid_t> marked_processes(const Mark& mark) {
  std::vector<pid_t> found;
  for (const std::string& pid : all_processes()) {
    if (number_of(pid) == ::getpid()) continue;
    if (has_mark(pid, mark) && !is_dead(stat_of(pid))) found.push_back(number_of(pid));
  }
  return found;
}

// Ends once two looks have found nothing: a process may have no mark for the moment in which it
// begins to run another program.
void kill_marked(const Mark& mark) {
  const double end = monotonic_seconds() + kKillSeconds;
  const auto is_marked = [&](pid_t pid) { return has_mark(std::to_string(pid), mark); };
  for (int nothing = 0; nothing < 2 && monotonic_seconds() < end;) {
    const std::vector<pid_t> left = marked_processes(mark);
    for (const pid_t pid : left) signal_process(pid, SIGKILL, is_marked);
    nothing = left.empty() ? nothing + 1 : 0;
    ::usleep(10'000);
  }
}

}  // namespace

void start_survivor(const std::function<void()>& work, const std::function<void()>& look) {
  const pid_t watched = ::getpid();
  if (::fork() != 0) return;
  ::setsid();  // a signal to the group or the terminal of the other is not for this one
  prctl(PR_SET_NAME, "gantrain-guard");
  move_environment();
  hide_environment();
  close_all_files();
  wait_for_death_of(watched, look);
  work();
  ::_exit(0);
}

void start_orphan_guard(const RankStatusBoard& board, const std::function<void()>& afterwards) {
  const std::string value = fmt::format("{}-{}", ::getpid(), monotonic_ns());
  ::setenv(kVariable, value.c_str(), 1);
  const Mark mark{fmt::format("{}={}", kVariable, value) + '\0', mapping_of(&board.slot(0))};
  start_survivor([&] {
    kill_marked(mark);
    if (afterwards) afterwards();
  });
}

}  // namespace gantrain
