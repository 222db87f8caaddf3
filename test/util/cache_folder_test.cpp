// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cstdlib>

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
