// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdlib>

#include "support/catch.h"
#include "support/temporary_folder.h"
#include "util/file.h"

using namespace gantrain;

TEST_CASE("TheCacheIsWhereTheFirstVariableThatIsSetSays") {
  ::setenv("GANTRAIN_CACHE_DIR", "/own", 1);
  ::setenv("XDG_CACHE_HOME", "/xdg", 1);
  ::setenv("HOME", "/home/somebody", 1);
  CHECK(cache_folder("metrics") == "/own/metrics");
  ::setenv("GANTRAIN_CACHE_DIR", "", 1);
  CHECK(cache_folder("metrics") == "/xdg/gantrain/metrics");
  ::unsetenv("XDG_CACHE_HOME");
  CHECK(cache_folder("metrics") == "/home/somebody/.cache/gantrain/metrics");
  ::unsetenv("HOME");
  CHECK(cache_folder("metrics").empty());
}

TEST_CASE("ACacheThatOthersMayWriteToIsRefused") {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  ::setenv("GANTRAIN_CACHE_DIR", (folder / "cache").c_str(), 1);
  make_private_folder(folder / "cache/metrics");
  const fs::path file = folder / "cache/metrics/reals";
  write_file(file, "");
  CHECK(cache_folder("metrics") == folder / "cache/metrics");
  for (const fs::path& path : {folder / "cache", folder / "cache/metrics", file}) {
    fs::permissions(path, fs::perms::others_write, fs::perm_options::add);
    CHECK(cache_folder("metrics").empty());
    fs::permissions(path, fs::perms::others_write, fs::perm_options::remove);
    fs::permissions(path, fs::perms::group_write, fs::perm_options::add);
    CHECK(cache_folder("metrics").empty());
    fs::permissions(path, fs::perms::group_write, fs::perm_options::remove);
  }
  CHECK(cache_folder("metrics") == folder / "cache/metrics");
  constexpr uid_t kOther = 65534;
  if (::geteuid() == 0 && ::chown(file.c_str(), kOther, static_cast<gid_t>(-1)) == 0) {
    CHECK(cache_folder("metrics").empty());
    CHECK(shared_with_others(folder / "cache/metrics") ==
          file.string() + ": belongs to another user");
  }
  ::unsetenv("GANTRAIN_CACHE_DIR");
}
