// SPDX-License-Identifier: Apache-2.0
#include "launch/orphan_guard.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "launch/survivor.h"
#include "util/time.h"

namespace gantrain {

namespace {

constexpr const char* kVariable = "GANTRAIN_LAUNCHER_MARK";
constexpr double kKillSeconds = 5;  // for killing all that is left

// What the processes of one run have in common.
struct Mark {
  std::string variable;  // "NAME=value" and a zero byte, in the environment
  std::string memory;    // " 00:01 1234 ", a file's device and inode in /proc/PID/maps
};

// /proc/PID/NAME; "" if the process is gone or of another user.
std::string read_of(const std::string& pid, const char* name) {
  std::ifstream file("/proc/" + pid + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The device and inode of the mapping that holds the address. A line of the file is
// "start-end permissions offset device inode path".
std::string mapping_of(const void* address) {
  std::istringstream maps(read_of("self", "maps"));
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
  const std::string environment = '\0' + read_of(pid, "environ");
  if (environment.find('\0' + mark.variable) != std::string::npos) return true;
  return !mark.memory.empty() && read_of(pid, "maps").find(mark.memory) != std::string::npos;
}

bool is_zombie(const std::string& pid) {
  const std::string stat = read_of(pid, "stat");
  const size_t name_end = stat.rfind(')');
  return name_end == std::string::npos || stat.compare(name_end, 3, ") Z") == 0;
}

std::vector<pid_t> marked_processes(const Mark& mark) {
  std::vector<pid_t> found;
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return found;
  while (const dirent* entry = ::readdir(proc)) {
    const std::string pid = entry->d_name;
    if (pid.front() < '1' || pid.front() > '9' || std::stol(pid) == ::getpid()) continue;
    if (has_mark(pid, mark) && !is_zombie(pid)) found.push_back(static_cast<pid_t>(std::stol(pid)));
  }
  ::closedir(proc);
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
