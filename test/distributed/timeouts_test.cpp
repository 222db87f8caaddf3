// SPDX-License-Identifier: Apache-2.0
#include "distributed/options.h"
#include "support/catch.h"
#include "util/error.h"

using namespace gantrain;

TEST_CASE("CollectivesOutlastTheLaunchersWatch") {
  struct Row {
    std::optional<double> given;
    double watch, timeout;
  };
  const double normal = DistOptions{}.timeout.seconds;
  for (const Row& row : {Row{{}, 600, 660},    // the watch as it is by default
                         Row{{}, 30, normal},  // a shorter watch needs no change
                         Row{{}, 1200, 1260},  // a longer one moves the timeout
                         Row{{}, 0, normal},   // nobody watches
                         Row{60.0, 600, 60},   // the user's word, and the launcher's naming
                         Row{900.0, 600, 900}}) {
    CAPTURE(row.watch);
    const double timeout = collective_timeout(row.given, normal, row.watch);
    CHECK(timeout == row.timeout);
    if (!row.given && row.watch > 0) CHECK(timeout > row.watch);
  }
}

TEST_CASE("TheLaunchersWatchComesBeforeATimeoutThatSomebodyGave") {
  CHECK(hang_watch(600, false, 60) == 48);
  CHECK(hang_watch(600, false, 600) == 480);
  CHECK(hang_watch(600, false, 660) == 600);
  CHECK(hang_watch(300, true, 300) == 300);  // as somebody wants it
  CHECK(hang_watch(0, false, 60) == 0);
}
