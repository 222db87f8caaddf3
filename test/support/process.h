// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/stopwatch.h"

namespace gantrain {

// Path of the gantrain under test.
std::filesystem::path gantrain_program();

struct CommandOptions {
  std::map<std::string, std::string> environment = {};  // added to the test's own
  std::filesystem::path folder = {};                    // working folder; empty: the test's
  double seconds = 240;                                 // after that the command is killed
  std::string typed = "gantrain";                       // the program, as the user types it
};

// What a command left on the screen. `code` is the exit code, or 128 + signal.
struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
  double seconds = 0;            // by a Stopwatch: what a busy machine adds does not count
  std::vector<pid_t> left = {};  // processes of the command that were alive after its end
};

// `gantrain ARGUMENTS` in a process of its own, standard input empty, output collected. Of the
// environment's GANTRAIN_*, launchers' and batch systems' variables it sees those given alone.
class Command {
 public:
  explicit Command(const std::vector<std::string>& arguments, const CommandOptions& options = {});
  ~Command();  // kills what is left of it and its descendants
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Until standard error holds the text; false when the command ends before.
  bool wait_for(const std::string& text);
  // Its live processes, orphans too: all that inherited its environment. Zombies do not count.
  std::vector<pid_t> family() const;
  // Until it has ended and every process that holds its output is gone.
  Outcome wait();

 private:
  bool read_some();  // false when all writers are gone

  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  Stopwatch watch_;
  double started_ = 0;
  double limit_ = 0;
  std::string mark_;
  Outcome outcome_;
};

// Command and wait() in one.
Outcome gantrain(const std::vector<std::string>& arguments, const CommandOptions& options = {});

// A socket that listens on a port of 127.0.0.1 that the kernel chose.
class TakenPort {
 public:
  TakenPort();
  ~TakenPort();
  TakenPort(const TakenPort&) = delete;
  TakenPort& operator=(const TakenPort&) = delete;

  int port() const { return port_; }

 private:
  int descriptor_ = -1;
  int port_ = 0;
};

// False for zombies too.
bool is_alive(pid_t pid);

// Whether `holds` becomes true within that time.
bool eventually(const std::function<bool()>& holds, double seconds);

}  // namespace gantrain
