// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "support/catch.h"
#include "support/temporary_folder.h"
#include "util/file.h"

namespace gantrain {

namespace fs = std::filesystem;

TEST_CASE("AProgramIsFoundWhereTheShellFindsIt") {
  CHECK(find_program("sh").filename() == "sh");
  CHECK(find_program("no-such-program-anywhere").empty());
  const TemporaryFolder folder;
  const std::string before = std::getenv("PATH");
  write_file(folder / "tool", "#!/bin/sh\n");
  setenv("PATH", (folder.path().string() + ":" + before).c_str(), 1);
  CHECK(find_program("tool").empty());  // it cannot be executed
  fs::permissions(folder / "tool", fs::perms::owner_all);
  CHECK(find_program("tool") == folder / "tool");
  setenv("PATH", before.c_str(), 1);
}

}  // namespace gantrain
