// SPDX-License-Identifier: Apache-2.0
#include "launch/where/devices.h"
#include "support/catch.h"

using namespace gantrain;

TEST_CASE("IdleThreadsSpinShortlyUnlessTheUserSaysHowTheyWait") {
  const IdleThreads ours = idle_threads({{"OMP_NUM_THREADS", "2"}}, 2);
  CHECK(ours.variables.at("OMP_WAIT_POLICY") == "active");
  CHECK(ours.variables.at("GOMP_SPINCOUNT") == "8000");
  CHECK(ours.variables.contains("GANTRAIN_WATCH_THREADS"));
  CHECK_THAT(ours.text, Catch::Contains("at once while other programs compute"));
  CHECK(idle_threads({{"OMP_WAIT_POLICY", ""}}, 2).variables == ours.variables);
  for (const auto& [name, value] : Env{{"OMP_WAIT_POLICY", "active"}, {"GOMP_SPINCOUNT", "5"}}) {
    const IdleThreads theirs = idle_threads({{name, value}}, 2);
    CHECK(theirs.variables.empty());
    CHECK_THAT(theirs.text, Catch::Contains(name + "=" + value));
  }
}

TEST_CASE("OnManyCoresIdleThreadsSpinSoShortlyThatNobodyNeedsToWatch") {
  const IdleThreads ours = idle_threads({}, 128);
  CHECK(ours.variables == Env{{"OMP_WAIT_POLICY", "active"}, {"GOMP_SPINCOUNT", "1000"}});
}
