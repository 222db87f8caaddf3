// SPDX-License-Identifier: Apache-2.0
#include "util/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "support/catch.h"
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
  // What a writer that was killed has left swallows no line.
  write_file(folder / "log", "one\nha");
  append_line(folder / "log", "two");
  CHECK(read_file(folder / "log") == "one\nha\ntwo\n");
}

TEST_CASE("ALineThatDoesNotFitLeavesNoHalf") {
  const TemporaryFolder folder;
  append_line(folder / "log", "one");
  Exit code = Exit::kDone;
  {
    const FileSizeLimit limit(10);
    code = code_of([&] { append_line(folder / "log", std::string(100, 'x')); });
  }
  CHECK(code == Exit::kDisk);
  CHECK(read_file(folder / "log") == "one\n");
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

TEST_CASE("APlantedLinkIsNotFollowedAndItsTargetStaysAsItWas") {
  const TemporaryFolder folder;
  write_file(folder / "victim", "secret");
  fs::create_symlink("victim", folder / "log");
  fs::create_symlink("victim", folder / fmt::format("a.tmp{}", ::getpid()));
  CHECK(code_of([&] { append_line(folder / "log", "line"); }) == Exit::kDisk);
  CHECK(code_of([&] { open_regular(folder / "log", O_RDWR | O_CREAT); }) == Exit::kDisk);
  write_file(folder / "a", "content");
  CHECK(read_file(folder / "a") == "content");
  write_file(folder / "log", "new");  // takes the link's place
  CHECK(read_file(folder / "log") == "new");
  CHECK_FALSE(fs::is_symlink(folder / "log"));
  CHECK(read_file(folder / "victim") == "secret");
}

TEST_CASE("WhatIsNoRegularFileIsRefusedWithoutWaiting") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0644) == 0);
  CHECK(code_of([&] { append_line(folder / "pipe", "line"); }) == Exit::kDisk);
  CHECK(code_of([&] { open_regular(folder / "pipe", O_RDWR); }) == Exit::kDisk);
  CHECK(code_of([&] { append_line(folder.path(), "line"); }) == Exit::kDisk);
}

TEST_CASE("ALinkedFolderIsFollowed") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "scratch");
  fs::create_directory_symlink("scratch", folder / "run");
  append_line(folder / "run/log", "line");
  write_file(folder / "run/a", "content");
  CHECK(read_file(folder / "scratch/log") == "line\n");
  CHECK(read_file(folder / "scratch/a") == "content");
}

TEST_CASE("TemporaryNamesDifferAndAreKnown") {
  CHECK(temporary_name("a") != temporary_name("a"));
  CHECK(is_temporary_name(temporary_name("state.pt")));
  CHECK(is_temporary_name("state.pt.tmp4711"));
  for (const char* name : {"state.pt", "notes.tmp", "a.tmp12b", ".tmp5", "a.tmp1f0c9a7730bX"})
    CHECK_FALSE(is_temporary_name(name));
}

TEST_CASE("ADeviceTakesTheBytesAtOnce") {
  write_file("/dev/null", "nothing");
  CHECK(fs::is_character_file("/dev/null"));
  // Standard output keeps its place in the file that it is.
  const TemporaryFolder folder;
  write_file(folder / "out", "before ");
  const int out = open_regular(folder / "out", O_WRONLY | O_APPEND);
  const int saved = ::dup(STDOUT_FILENO);
  ::dup2(out, STDOUT_FILENO);
  write_file("/dev/stdout", "one ");
  write_file(fmt::format("/dev/fd/{}", out), "two");
  ::dup2(saved, STDOUT_FILENO);
  for (const int fd : {out, saved}) ::close(fd);
  CHECK(read_file(folder / "out") == "before one two");
  CHECK(fs::is_symlink("/dev/stdout"));
  CHECK(code_of([&] { write_file(fmt::format("/dev/fd/{}", out), ""); }) == Exit::kDisk);
}

TEST_CASE("OfAStrangersFolderOnlyRegularFilesOfSomeSizeAreRead") {
  const TemporaryFolder folder;
  write_file(folder / "file", "0123456789");
  CHECK(read_regular_file(folder / "file", 10) == "0123456789");
  fs::create_symlink("file", folder / "link");
  fs::create_symlink("/dev/zero", folder / "endless");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  fs::create_directory(folder / "folder");
  write_file(folder / "large", "");
  fs::resize_file(folder / "large", uintmax_t{1} << 43);
  for (const char* name : {"link", "endless", "pipe", "folder", "large", "missing"}) {
    CAPTURE(name);
    CHECK_FALSE(content_of(folder / name, 1 << 20));
    CHECK_THROWS_WITH(read_regular_file(folder / name, 1 << 20),
                      Catch::Contains((folder / name).string() + ": "));
    CHECK(code_of([&] { read_regular_file(folder / name, 1 << 20); }) == Exit::kInput);
    if (std::string(name) != "large")
      each_line(folder / name, 1 << 20, [](const std::string& line) { FAIL(line); });
  }
  CHECK_FALSE(content_of(folder / "file", 9));
  // What is too large is not read to see that it is.
  CHECK_FALSE(content_of(folder / "large", int64_t{1} << 42));
  CHECK(code_of([&] { read_file(folder / "large"); }) == Exit::kInput);
}

TEST_CASE("OfALongFileTheLastWholeLinesAreHandedOver") {
  const TemporaryFolder folder;
  const auto lines_in = [&](int64_t at_most) {
    std::string all;
    each_line(folder / "lines", at_most, [&all](const std::string& line) { all += line + "|"; });
    return all;
  };
  write_file(folder / "lines", "one\ntwo\n\nhalf");
  CHECK(lines_in(100) == "one|two||half|");
  CHECK(lines_in(13) == "one|two||half|");
  CHECK(lines_in(12) == "two||half|");
  CHECK(lines_in(9) == "two||half|");
  CHECK(lines_in(8) == "|half|");
  CHECK(lines_in(2).empty());
  const std::string wide(400'000, 'x');  // more than is read at once
  write_file(folder / "lines", wide + "\n" + std::string(2'000'000, 'y') + "\nend\n");
  CHECK(lines_in(10'000'000) == wide + "|end|");
}

TEST_CASE("APathLiesInAFolderOnceLinksAreFollowed") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "runs/1");
  fs::create_directories(folder / "elsewhere");
  fs::create_symlink("1", folder / "runs/latest");
  fs::create_symlink(folder / "elsewhere", folder / "runs/out");
  for (const char* name : {"runs", "runs/1", "runs/latest", "runs/new/one", "elsewhere/../runs/2"})
    CHECK(lies_in(folder / name, folder / "runs"));
  for (const char* name :
       {"elsewhere", "runs-2", "runs/../elsewhere", "runs/out", "runs/out/1", "."})
    CHECK_FALSE(lies_in(folder / name, folder / "runs"));
  CHECK_FALSE(lies_in("", folder / "runs"));
  CHECK_FALSE(lies_in("/", folder / "runs"));
  CHECK_FALSE(lies_in("runs/1", ""));
  CHECK(lies_in("runs/1", "runs"));
  CHECK(lies_in("runs/1", "."));
}
