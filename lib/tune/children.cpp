// SPDX-License-Identifier: Apache-2.0
#include "tune/children.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>

#include "util/error.h"
#include "util/file.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

// The program's name as this process was started with it.
std::string own_name() {
  const std::string words = read_file("/proc/self/cmdline");
  return words.substr(0, words.find('\0'));
}

// In the child: only what may follow a fork.
[[noreturn]] void become(const std::string& program,
                         const std::vector<std::string>& words,
                         const Children::Start& start,
                         int output) {
  for (const auto& [name, value] : start.environment)
    ::setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  if (output >= 0) ::dup2(output, STDERR_FILENO);
  if (!start.answers) ::dup2(STDERR_FILENO, STDOUT_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  constexpr int kNoProgram = 127;
  ::_exit(kNoProgram);
}

}  // namespace

void Children::start(size_t id, const Start& start) {
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  std::vector<std::string> words = start.arguments;
  words.insert(words.begin(), own_name());
  int output = -1;
  if (!start.output.empty()) output = open_regular(start.output, O_WRONLY | O_CREAT | O_APPEND);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child == 0) {
    die_with(parent);
    // A Ctrl-C reaches this process alone, which passes it on once.
    ::setpgid(0, 0);
    ::signal(SIGPIPE, SIG_DFL);
    ::sigprocmask(SIG_SETMASK, &gate_.original_mask(), nullptr);
    become(program, words, start, output);
  }
  const std::string reason = child < 0 ? errno_text() : "";
  if (output >= 0) ::close(output);
  if (child < 0) fail(Exit::kEnvironment, "cannot start a process: {}", reason);
  ids_[child] = id;
}

void Children::pass_on_signals() {
  while (const auto signal = gate_.next()) {
    if (*signal == SIGCHLD) continue;
    if (stop_signal_ == 0) stop_signal_ = *signal;
    stop_all(*signal);
  }
}

void Children::stop_all(int signal) {
  for (const auto& [pid, id] : ids_) ::kill(pid, signal);
}

int Children::stop_signal() {
  pass_on_signals();
  return stop_signal_;
}

std::optional<Children::End> Children::reap() {
  for (const auto& [pid, id] : ids_) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) != pid) continue;
    const End end{id, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
    ids_.erase(pid);
    return end;
  }
  return std::nullopt;
}

std::optional<Children::End> Children::wait_for(double seconds) {
  const double until = monotonic_seconds() + seconds;
  for (;;) {
    pass_on_signals();
    if (const auto end = reap()) return end;
    const double left = until - monotonic_seconds();
    if (left <= 0) return std::nullopt;
    pollfd polled{gate_.descriptor(), POLLIN, 0};
    ::poll(&polled, 1, static_cast<int>(left * 1e3) + 1);
  }
}

Children::End Children::wait() {
  constexpr double kAtMost = 60;  // seconds
  for (;;) {
    if (const auto end = wait_for(kAtMost)) return *end;
  }
}

int code_of_stop(int signal) {
  return code_of(signal == SIGINT ? Exit::kInterrupted : Exit::kStopped);
}

}  // namespace gantrain
