// SPDX-License-Identifier: Apache-2.0
#include "launch/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "util/time.h"

namespace gantrain {

namespace {

struct Process {
  pid_t parent = 0;
  char state = 'Z';
};

// /proc/PID/stat is "pid (any text) S ppid ..."; the process may be gone meanwhile.
Process read_process(const char* pid) {
  char text[512];
  const std::string path = std::string("/proc/") + pid + "/stat";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t size = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (size <= 0) return {};
  text[size] = '\0';
  const char* name_end = std::strrchr(text, ')');
  Process process;
  if (name_end == nullptr ||
      std::sscanf(name_end + 1, " %c %d", &process.state, &process.parent) != 2) {
    return {};
  }
  return process;
}

bool reap_all() {  // true: no child is left, so nothing below either
  while (true) {
    const pid_t pid = waitpid(-1, nullptr, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid < 0) return true;
    if (pid == 0) return false;
  }
}

}  // namespace

std::vector<pid_t> living_process_tree() {
  std::multimap<pid_t, pid_t> children;
  std::map<pid_t, char> states;
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return {};
  while (const dirent* entry = ::readdir(proc)) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    const Process process = read_process(entry->d_name);
    if (process.parent == 0) continue;
    const pid_t pid = std::atoi(entry->d_name);
    children.emplace(process.parent, pid);
    states[pid] = process.state;
  }
  ::closedir(proc);
  std::vector<pid_t> living;
  std::vector<pid_t> open{getpid()};
  while (!open.empty()) {
    const auto [begin, end] = children.equal_range(open.back());
    open.pop_back();
    for (auto child = begin; child != end; ++child) {
      const char state = states[child->second];
      if (state != 'Z' && state != 'X') living.push_back(child->second);
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

}  // namespace gantrain
