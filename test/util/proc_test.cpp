// SPDX-License-Identifier: Apache-2.0
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "util/file.h"
#include "util/system.h"

using namespace gantrain;

TEST_CASE("AProcFilesValueIsWhatFollowsItsKey") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "meminfo").string();
  write_file(file, "MemTotal:        8053064 kB\nmodel name\t: A CPU: fast\nEmpty:\nMem: 5 kB\n");
  CHECK(proc_value(file, "MemTotal") == "8053064 kB");
  CHECK(proc_value(file, "model name") == "A CPU: fast");
  CHECK(proc_value(file, "Empty").empty());
  CHECK(proc_value(file, "MemTot").empty());
  CHECK(proc_value(file + ".none", "MemTotal").empty());
  CHECK(proc_bytes(file, "MemTotal") == 8053064LL * 1024);
  CHECK(proc_bytes(file, "Mem") == 5 * 1024);
  CHECK(proc_bytes(file, "model name") == 0);
  CHECK(proc_bytes(file, "Absent") == 0);
}
