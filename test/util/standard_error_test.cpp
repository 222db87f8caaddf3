// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>

#include "support/catch.h"
#include "util/log.h"
#include "util/system.h"

using namespace gantrain;

namespace {

// The end of a pipe or terminal that is read, and the one that becomes standard error.
struct Ends {
  int read, write;
};

Ends pipe_ends() {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  return {ends[0], ends[1]};
}

Ends terminal_ends() {
  Ends ends{};
  REQUIRE(::openpty(&ends.read, &ends.write, nullptr, nullptr, nullptr) == 0);
  return ends;
}

// Runs `body` in a child whose standard error is `write`; the child has a minute.
pid_t child(const Ends& ends, const std::function<void()>& body) {
  const pid_t pid = ::fork();
  if (pid != 0) {
    ::close(ends.write);
    return pid;
  }
  ::alarm(60);
  ::dup2(ends.write, STDERR_FILENO);
  ::close(ends.write);
  body();
  ::_exit(0);
}

bool ended_well(pid_t pid) {
  int status = 0;
  return ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// What arrives until all who write have ended or, with `until`, until that text does.
std::string read_from(int descriptor, const std::string& until = "") {
  ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
  std::string text;
  const double end = monotonic_seconds() + 60;
  while (monotonic_seconds() < end && (until.empty() || text.find(until) == std::string::npos)) {
    char buffer[4096];
    const ssize_t size = ::read(descriptor, buffer, sizeof buffer);
    if (size > 0) {
      text.append(buffer, static_cast<size_t>(size));
    } else if (size < 0 && errno == EAGAIN) {
      ::usleep(1000);
    } else {
      break;  // a terminal's end is EIO
    }
  }
  return text;
}

const std::string kLine = std::string(99, 'x') + "\n";

}  // namespace

TEST_CASE("WritingEndsWhenNobodyReads") {
  for (const Ends& ends : {pipe_ends(), terminal_ends()}) {
    const pid_t pid = child(ends, [] {
      for (int i = 0; i < 20'000; ++i) write_standard_error(kLine);
      flush_standard_error(0.1);
    });
    CHECK(ended_well(pid));
    CHECK(read_from(ends.read).find('x') == 0);
    ::close(ends.read);
  }
}

TEST_CASE("WhatWasKeptComesInOrderOnceSomebodyReadsAndThenHowMuchIsMissing") {
  const Ends ends = pipe_ends();
  constexpr int kLines = 10'000;
  const Ends wrote = pipe_ends();
  const pid_t pid = child(ends, [&wrote] {
    for (int i = 0; i < kLines; ++i)
      write_standard_error(std::to_string(100'000 + i) + " " + kLine);
    write_standard_error("the bar", Unread::kDrop);
    if (::write(wrote.write, "x", 1) != 1) ::_exit(1);
    flush_standard_error(60);
    write_standard_error("the end\n");
  });
  char written = 0;  // nobody reads before
  REQUIRE(::read(wrote.read, &written, 1) == 1);
  const std::string text = read_from(ends.read, "the end\n");
  CHECK(ended_well(pid));
  int line = 0;
  size_t at = 0;
  const size_t length = kLine.size() + 7;
  while (text.compare(at, 7, std::to_string(100'000 + line) + " ") == 0) ++line, at += length;
  CHECK(line * length >= kMostUnread);
  CHECK(text.substr(at) == "(" + std::to_string(kLines - line) +
                               " lines were not shown: nobody read them)\nthe end\n");
}

TEST_CASE("ASlowReaderLosesNothing") {
  const Ends ends = pipe_ends();
  const pid_t pid = child(ends, [] {
    for (int i = 0; i < 2000; ++i) write_standard_error(kLine);
    flush_standard_error(60);
  });
  ::usleep(50'000);
  const std::string text = read_from(ends.read);
  CHECK(ended_well(pid));
  CHECK(text.size() == 2000 * kLine.size());
}
