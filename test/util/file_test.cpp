// SPDX-License-Identifier: Apache-2.0
#include "util/file.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <functional>

#include "support/temporary_folder.h"
#include "util/error.h"

using namespace gantrain;
namespace fs = std::filesystem;

namespace {
Exit code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& e) {
    return e.code();
  }
  return Exit::kDone;
}

// Files of this process may have at most so many bytes, as long as this lives; a write beyond them
// fails and sends no deadly signal.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};
}  // namespace

TEST_CASE("AFileBeyondTheSizeLimitIsRefusedByFileAndLimit") {
  const TemporaryFolder folder;
  std::string message;
  Exit code = Exit::kDone;
  {
    const FileSizeLimit limit(4096);
    try {
      write_file(folder / "large", std::string(10'000, 'x'));
    } catch (const UserError& e) {
      message = e.what();
      code = e.code();
    }
  }
  CHECK(code == Exit::kDisk);
  CHECK_THAT(message, Catch::Contains("/large: cannot write") && Catch::Contains("4096 bytes"));
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("WhatIsWrittenIsRead") {
  const TemporaryFolder folder;
  write_file(folder / "a", std::string("one\0two", 7));
  CHECK(read_file(folder / "a") == std::string("one\0two", 7));
}

TEST_CASE("AnAtomicFileWithoutCommitLeavesTheOldOne") {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("new, but not whole");
  }
  CHECK(read_file(folder / "a") == "old");
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("AppendedLinesFollowEachOther") {
  const TemporaryFolder folder;
  append_line(folder / "log", "one");
  append_line(folder / "log", "two");
  CHECK(read_file(folder / "log") == "one\ntwo\n");
}

TEST_CASE("FilesThatCannotBeReadOrWrittenHaveTheirExitCodes") {
  const TemporaryFolder folder;
  write_file(folder / "file", "");
  CHECK(code_of([&] { read_file(folder / "missing"); }) == Exit::kInput);
  CHECK(code_of([&] { read_file(folder.path()); }) == Exit::kInput);
  CHECK(code_of([&] { write_file(folder / "file/below", ""); }) == Exit::kDisk);
  CHECK(code_of([&] { make_writable_folder(folder / "file/below"); }) == Exit::kDisk);
  CHECK(code_of([&] { make_writable_folder(folder / "file"); }) == Exit::kDisk);
}

TEST_CASE("FreeSpaceOfAFolderIsKnownAndOfNothingIsNot") {
  CHECK(free_bytes("/tmp") > 0);
  CHECK(free_bytes("/no/such/folder") == -1);
}
