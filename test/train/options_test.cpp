// SPDX-License-Identifier: Apache-2.0
#include "train/options.h"

#include <catch2/catch.hpp>

#include "util/error.h"

using namespace gantrain;

TEST_CASE("MetricsAreNamedOrNone") {
  MetricsOptions o;
  CHECK(metric_names(o) == std::vector<std::string>{"swd", "msssim"});
  o.names = "none";
  CHECK(metric_names(o).empty());
  o.names = "msssim";
  CHECK(metric_names(o) == std::vector<std::string>{"msssim"});
  o.names = "swd,fidd";
  CHECK_THROWS_WITH(metric_names(o), Catch::Contains("fidd is not a metric"));
}
