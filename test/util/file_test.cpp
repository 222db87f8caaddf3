// SPDX-License-Identifier: Apache-2.0
#include "util/file.h"

#include <catch2/catch.hpp>
#include <functional>

#include "temporary_folder.h"
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
}  // namespace

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
