// SPDX-License-Identifier: Apache-2.0
#include "launch/where/devices.h"
#include "support/catch.h"

using namespace gantrain;

TEST_CASE("IdleThreadsSleepUnlessTheUserSaysHowTheyWait") {
  const IdleThreads ours = idle_threads({{"OMP_NUM_THREADS", "2"}});
  CHECK(ours.variables == Env{{"OMP_WAIT_POLICY", "passive"}});
  CHECK_THAT(ours.text, Catch::Contains("OMP_WAIT_POLICY=passive"));
  CHECK(idle_threads({{"OMP_WAIT_POLICY", ""}}).variables == ours.variables);
  for (const auto& [name, value] : Env{{"OMP_WAIT_POLICY", "active"}, {"GOMP_SPINCOUNT", "5"}}) {
    const IdleThreads theirs = idle_threads({{name, value}});
    CHECK(theirs.variables.empty());
    CHECK_THAT(theirs.text, Catch::Contains(name + "=" + value));
  }
}
