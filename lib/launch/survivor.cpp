// SPDX-License-Identifier: Apache-2.0
#include "launch/survivor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "util/block_signals.h"

namespace gantrain {

namespace {

std::string own_stat() {
  std::ifstream file("/proc/self/stat");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

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
  const std::string stat = own_stat();
  std::istringstream words(stat.substr(stat.rfind(')') + 1));
  std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
  constexpr size_t kStart = 50 - 3;  // the first word after the name is field 3
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

}  // namespace gantrain
