// SPDX-License-Identifier: Apache-2.0
// Stops that come before the training has begun.
#include <signal.h>

#include <fstream>

#include "support/catch.h"
#include "support/tiny.h"

namespace gantrain {
namespace {

// A variable with which commands are executed, so that they have a library to load.
const std::map<std::string, std::string> kExecuted = {{"OMP_NUM_THREADS", "1"}};

// Whether the process has a handler for the signal, or takes it in another way.
bool takes(pid_t pid, int signal) {
  // Before it is the program, it has the handlers of this test.
  std::error_code error;
  const auto program =
      std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", error);
  if (program != std::filesystem::canonical(gantrain_program())) return false;
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  uint64_t mask = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("SigCgt:", 0) == 0 || line.rfind("SigBlk:", 0) == 0)
      mask |= std::stoull(line.substr(7), nullptr, 16);
  }
  return (mask >> (signal - 1) & 1) != 0;
}

int64_t count(const std::string& text, const std::string& part) {
  int64_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

}  // namespace

TEST_CASE("AStopInTheFirstMillisecondsHasItsCodeAndOneLine") {
  for (const auto& [signal, code] :
       std::vector<std::pair<int, int>>{{SIGINT, 130}, {SIGTERM, 75}, {SIGUSR1, 75}}) {
    const TemporaryFolder folder;
    Command command(tiny("--kimg 500 --run-dir run"),
                    {.environment = kExecuted, .folder = folder.path()});
    REQUIRE(eventually([&, signal = signal] { return takes(command.pid(), signal); }, 60));
    command.signal(signal);
    const Outcome outcome = command.wait();
    INFO(outcome.err);
    CAPTURE(signal);
    CHECK(outcome.code == code);
    CHECK(outcome.left.empty());
    const std::string said = "stopped by signal " + std::to_string(signal) + " (";
    CHECK(count(outcome.err, said) == 1);
  }
}

TEST_CASE("AStopWhileTheDataIsOpenedSaysThatNothingWasLost") {
  const TemporaryFolder folder;
  Command command(tiny("--nproc 2 --kimg 500 --run-dir run"),
                  {.environment = kExecuted, .folder = folder.path()});
  // The launcher has a child as soon as it loads the trainer.
  REQUIRE(eventually([&] { return command.family().size() > 1; }, 60));
  command.signal(SIGINT);
  const Outcome outcome = command.wait();
  INFO(outcome.err);
  CHECK(outcome.code == 130);
  CHECK(count("\n" + outcome.err, "\nstopped ") == 1);
  CHECK(count(outcome.err, "\nnext    ") == 1);
}

}  // namespace gantrain
