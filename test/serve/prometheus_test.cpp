// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "serve/server.h"
#include "support/catch.h"

namespace gantrain {

TEST_CASE("MetricsHaveOneHelpAndTypeAndEscapedLabels") {
  RunView a;
  a.name = "a\"b\\c\nd\xFF";
  a.state = "running";
  a.verdict.word = "learning";
  a.kimg = 1.5;
  a.last_tick = 90;
  a.ranks = 4;
  a.slowest_rank = 3;
  a.slowest_behind = 0.25;
  a.losses = {{"G/loss", std::numeric_limits<double>::quiet_NaN()},
              {"D/loss", -std::numeric_limits<double>::infinity()}};
  a.metrics = {{"fid", {1.0, 20.25}}};
  RunView b;
  b.name = "b";
  b.state = "done";
  b.verdict.word = "no failure found";
  b.kimg = 200;
  const std::string text = prometheus_text({a, b}, 100);
  const std::string run = "{run=\"a\\\"b\\\\c\\nd\uFFFD\"";
  const auto has = [&](const std::string& part) { return text.find(part) != std::string::npos; };
  INFO(text);
  CHECK(
      has("# HELP gantrain_kimg Thousands of real images seen.\n# TYPE gantrain_kimg gauge\n"
          "gantrain_kimg" +
          run + "} 1.5\ngantrain_kimg{run=\"b\"} 200\n"));
  CHECK(has("gantrain_loss" + run + ",loss=\"D/loss\"} -Inf\n"));
  CHECK(has("gantrain_loss" + run + ",loss=\"G/loss\"} NaN\n"));
  CHECK(has("gantrain_metric" + run + ",metric=\"fid\"} 20.25\n"));
  CHECK(has("gantrain_seconds_since_tick" + run + "} 10\n"));
  CHECK(has("gantrain_ranks" + run + "} 4\n"));
  CHECK(has("gantrain_slowest_rank" + run + "} 3\n"));
  CHECK(has("gantrain_slowest_rank_behind" + run + "} 0.25\n"));
  CHECK(has("gantrain_status{run=\"b\",status=\"done\"} 1\n"));
  CHECK(has("gantrain_status{run=\"b\",status=\"running\"} 0\n"));
  CHECK(has("gantrain_verdict{run=\"b\",verdict=\"no failure found\"} 1\n"));
  CHECK_FALSE(has("gantrain_seconds_to_go"));  // nobody has it
  CHECK(prometheus_text({}, 0).empty());
}

}  // namespace gantrain
