// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <unistd.h>

#include "launch/local/processes.h"
#include "launch_helper.h"
#include "support/catch.h"

namespace gantrain {

namespace {

// Starts a daemon as programs do: in a session of its own, as nobody's child, without files. Its
// pid is the first shared number.
void start_daemon(bool another_program) {
  if (fork() != 0) return;
  setsid();
  if (fork() != 0) _exit(0);
  for (int fd = 0; fd < 256; ++fd) ::close(fd);
  shared_number(0) = getpid();
  if (another_program) execlp("sleep", "sleep", "300", nullptr);
  while (true) pause();
}

int leave_a_fork(const RankContext&, const char*) {
  start_daemon(false);
  while (true) pause();
}

int leave_a_program(const RankContext&, const char*) {
  start_daemon(true);
  while (true) pause();
}

void check_nothing_outlives_the_launcher(RankMain main) {
  clear_shared_numbers();
  Launcher launcher(main, 1);
  REQUIRE(eventually([] { return shared_number(0) != 0; }, 60));
  const auto daemon = static_cast<pid_t>(shared_number(0));
  ::kill(launcher.pid(), SIGKILL);
  const bool gone = eventually([&] { return !is_alive(daemon); }, 60);
  if (!gone) ::kill(daemon, SIGKILL);
  CHECK(gone);
  launcher.wait();
}

}  // namespace

TEST_CASE("AFileOfAProcessThatCannotBeReadIsEmpty") {
  CHECK(
      proc_file("self", "mem").empty());  // reading its first page fails, as of a process that ends
  CHECK(proc_file("0", "stat").empty());
  CHECK_FALSE(proc_file("self", "stat").empty());
}

TEST_CASE("ADaemonThatARankForkedDiesWithAKilledLauncher") {
  check_nothing_outlives_the_launcher(leave_a_fork);
}

TEST_CASE("AProgramThatARankStartedAsADaemonDiesWithAKilledLauncher") {
  check_nothing_outlives_the_launcher(leave_a_program);
}

}  // namespace gantrain
