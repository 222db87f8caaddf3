// SPDX-License-Identifier: Apache-2.0
#include <sched.h>

#include "support/catch.h"
#include "util/system.h"

namespace gantrain {

TEST_CASE("UsableCoresAreThoseOfTheAffinityMask") {
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0);
  CHECK(usable_cores() == CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
  CHECK(usable_cores() == 1);
  CHECK(sched_setaffinity(0, sizeof(before), &before) == 0);
}

}  // namespace gantrain
