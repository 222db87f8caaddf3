// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include "launch/local/spawn.h"
#include "support/catch.h"
#include "util/file.h"

namespace gantrain {

namespace {

// Standard error of this process while the object lives.
class Captured {
 public:
  Captured() : pipe_(make_pipe()), saved_(dup(STDERR_FILENO)) {
    set_nonblocking(pipe_.read.get());
    dup2(pipe_.write.get(), STDERR_FILENO);
  }
  ~Captured() { dup2(saved_.get(), STDERR_FILENO); }
  std::string text() {
    char buffer[65536];
    std::string all;
    for (ssize_t n; (n = ::read(pipe_.read.get(), buffer, sizeof buffer)) > 0;) {
      all.append(buffer, static_cast<size_t>(n));
    }
    return all;
  }

 private:
  Pipe pipe_;
  UniqueFd saved_;
};

}  // namespace

TEST_CASE("LinesComeWholeWithTheRankInFront") {
  Pipe pipe = make_pipe();
  Output output;
  output.add(3, std::move(pipe.read));
  Captured captured;
  write_whole(pipe.write.get(), "one\ntw");
  output.relay();
  CHECK(captured.text() == "[rank 3] one\n");
  write_whole(pipe.write.get(), "o\n\nredrawn\rlast\r\nrest");
  output.relay();
  CHECK(captured.text() == "[rank 3] two\n[rank 3] \n[rank 3] last\n");
  output.finish();
  CHECK(captured.text() == "[rank 3] rest\n");
}

TEST_CASE("WhatAFileCannotTakeIsShownAndTheFileIsNamed") {
  Pipe pipe = make_pipe();
  std::string unwritten;
  OutputWay way{.to = -1, .waits = true, .prefixed = true};
  way.file = UniqueFd(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  way.path = "logs/rank1.err";
  way.instead = STDERR_FILENO;
  way.unwritten = &unwritten;
  Output output;
  output.add(1, std::move(pipe.read), std::move(way));
  Captured captured;
  write_whole(pipe.write.get(), "one\n");
  output.relay();
  const std::string first = captured.text();
  CHECK_THAT(first, Catch::Contains("logs/rank1.err: No space left on device"));
  CHECK_THAT(first, Catch::Contains("[rank 1] one\n"));
  write_whole(pipe.write.get(), "last words\n");
  output.relay();
  CHECK(captured.text() == "[rank 1] last words\n");
  CHECK(unwritten == "logs/rank1.err: No space left on device");
}

TEST_CASE("EndlessLinesAreCut") {
  Pipe pipe = make_pipe();
  Output output;
  output.add(1, std::move(pipe.read));
  Captured captured;
  const std::string half(Output::kLongestLine / 2, 'x');
  write_whole(pipe.write.get(), half);
  output.relay();
  CHECK(captured.text().empty());
  write_whole(pipe.write.get(), half.substr(10));
  output.relay();
  CHECK(captured.text().empty());
  write_whole(pipe.write.get(), std::string(15, 'y'));
  // One line of 64 KiB fits a pipe of 64 KiB only if somebody reads meanwhile: look at its length.
  const Pipe room = make_pipe();
  const int saved = dup(STDERR_FILENO);
  const int null = fileno(tmpfile());
  dup2(null, STDERR_FILENO);
  output.finish();
  CHECK(lseek(null, 0, SEEK_CUR) == static_cast<off_t>(Output::kLongestLine + 5 + 2 * 10));
  dup2(saved, STDERR_FILENO);
  ::close(saved);
}

}  // namespace gantrain
