// SPDX-License-Identifier: Apache-2.0
// gantrain for scripts that start it often: asks the process behind $GANTRAIN_TEST_SOCKET
// (program_starter.cpp) for the command, and ends as it does. Without such a process it becomes
// the program itself. A signal strikes this process alone.
#include <sys/un.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "support/starter.h"

namespace {

namespace fs = std::filesystem;

// A socket that the process behind the path has accepted; -1 without one.
int connected(const char* path) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  const bool found = ::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  return found ? socket : -1;
}

}  // namespace

int main(int count, char** argv) {
  const char* path = std::getenv("GANTRAIN_TEST_SOCKET");
  const int socket = path == nullptr ? -1 : connected(path);
  ::unsetenv("GANTRAIN_TEST_SOCKET");
  const std::vector<std::string> arguments(argv, argv + count);
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  pid_t pid = -1;
  if (socket < 0 ||
      !gantrain::send_request(socket, fs::current_path(), arguments, environment, {0, 1, 2}) ||
      !gantrain::read_whole(socket, &pid, sizeof pid) || pid < 0) {
    const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
    ::execv((here.parent_path() / "gantrain").c_str(), argv);
    return 127;
  }
  int status = 0;
  if (!gantrain::read_whole(socket, &status, sizeof status)) return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
