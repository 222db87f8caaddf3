// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "support/catch.h"
#include "util/system.h"

namespace gantrain {
namespace {

pid_t start_sleeper() {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (true) ::pause();
}

// Starts a process that has this number, if the system lets this user choose one; else returns -1.
pid_t start_sleeper_as(pid_t pid) {
  clone_args wanted{};
  wanted.exit_signal = SIGCHLD;
  wanted.set_tid = reinterpret_cast<uint64_t>(&pid);
  wanted.set_tid_size = 1;
  const auto started = static_cast<pid_t>(::syscall(SYS_clone3, &wanted, sizeof wanted));
  if (started != 0) return started;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (true) ::pause();
}

void end(pid_t pid) {
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

// The signal that ended a child.
int signal_of(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_CASE("AChildAndItsChildAreBelowThisProcessAndOthersAreNot") {
  int numbers[2];
  REQUIRE(::pipe2(numbers, O_CLOEXEC) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const pid_t grandchild = start_sleeper();
    if (::write(numbers[1], &grandchild, sizeof grandchild) < 0) ::_exit(1);
    while (true) ::pause();
  }
  pid_t grandchild = 0;
  REQUIRE(::read(numbers[0], &grandchild, sizeof grandchild) == sizeof grandchild);
  CHECK(is_below(child));
  CHECK(is_below(grandchild));
  for (const pid_t other : {::getpid(), ::getppid(), 1, 0, -1}) CHECK_FALSE(is_below(other));
  for (const pid_t pid : {grandchild, child}) signal_process(pid, SIGKILL);
  CHECK(signal_of(child) == SIGKILL);
  CHECK_FALSE(is_below(child));
  for (const int fd : numbers) ::close(fd);
}

TEST_CASE("AProcessThatIsNotMeantIsNotHit") {
  const pid_t child = start_sleeper();
  signal_process(child, SIGKILL, [](pid_t) { return false; });
  CHECK(::waitpid(child, nullptr, WNOHANG) == 0);
  for (const pid_t none : {0, -1}) signal_process(none, SIGKILL, [](pid_t) { return true; });
  end(child);
}

TEST_CASE("AProcessThatGetsTheNumberMeanwhileIsNotHit") {
  const pid_t first = start_sleeper();
  pid_t second = -1;
  signal_process(first, SIGKILL, [&](pid_t) {
    end(first);
    second = start_sleeper_as(first);
    return true;
  });
  if (second < 0) {
    WARN("skipped: the number of a process can be chosen by root alone");
    return;
  }
  REQUIRE(second == first);
  CHECK(::waitpid(second, nullptr, WNOHANG) == 0);
  end(second);
}

TEST_CASE("WithoutAPidfdASignalIsSentAllTheSame") {
  const pid_t child = start_sleeper();
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const rlimit none{0, files.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  signal_process(child, SIGKILL);
  ::setrlimit(RLIMIT_NOFILE, &files);
  CHECK(signal_of(child) == SIGKILL);
}

}  // namespace gantrain
