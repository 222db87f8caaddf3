// SPDX-License-Identifier: Apache-2.0
#include "launch/local/processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "util/system.h"
#include "util/time.h"

namespace gantrain {

std::string proc_file(const std::string& pid, const char* name) {
  std::ifstream file("/proc/" + pid + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> all_processes() {
  std::vector<std::string> pids;
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return {};
  while (const dirent* entry = ::readdir(proc)) {
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') pids.emplace_back(entry->d_name);
  }
  ::closedir(proc);
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

}  // namespace

bool is_stopped(pid_t pid) {
  const std::vector<std::string> stat = stat_of(std::to_string(pid));
  return !stat.empty() && (stat[0] == "T" || stat[0] == "t");
}

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
      if (dead.count(child->second) == 0) living.push_back(child->second);
      open.push_back(child->second);
    }
  }
  return living;
}

std::vector<pid_t> kill_process_tree(double seconds) {
  const double end = monotonic_seconds() + seconds;
  useconds_t pause = 200;
  while (!reap_all()) {
    const std::vector<pid_t> living = living_process_tree();
    if (monotonic_seconds() > end) return living;
    for (const pid_t pid : living) ::kill(pid, SIGKILL);
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
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const auto most = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 4096));
  for (int fd = 0; fd < most; ++fd) ::close(fd);
  // What is opened later must not become a standard stream, into which messages go.
  for (int fd = ::open("/dev/null", O_RDWR); fd >= 0 && fd < STDERR_FILENO;) fd = ::dup(fd);
}

// The kernel sends the signal asked for here when the other process dies.
void wait_for_death_of(pid_t process) {
  block_signals();
  prctl(PR_SET_PDEATHSIG, SIGUSR2);
  while (::getppid() == process) {
    sigset_t death;
    sigemptyset(&death);
    sigaddset(&death, SIGUSR2);
    ::sigwaitinfo(&death, nullptr);
  }
}

}  // namespace

void start_survivor(const std::function<void()>& work) {
  const pid_t watched = ::getpid();
  if (::fork() != 0) return;
  ::setsid();  // a signal to the group or the terminal of the other is not for this one
  prctl(PR_SET_NAME, "gantrain-guard");
  move_environment();
  hide_environment();
  close_all_files();
  wait_for_death_of(watched);
  work();
  ::_exit(0);
}

namespace {

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
  for (int nothing = 0; nothing < 2 && monotonic_seconds() < end;) {
    const std::vector<pid_t> left = marked_processes(mark);
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
    nothing = left.empty() ? nothing + 1 : 0;
    ::usleep(10'000);
  }
}

}  // namespace

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
