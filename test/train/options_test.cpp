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

TEST_CASE("CudaGraphsAreAskedForOnGpusAlone") {
  TrainOptions o;
  CHECK(o.graphs == Graphs::kAuto);
  for (const Graphs any : {Graphs::kAuto, Graphs::kOff, Graphs::kOn}) {
    o.graphs = any;
    CHECK_NOTHROW(check_graphs(o, /*on_gpu=*/true));
  }
  try {
    check_graphs(o, /*on_gpu=*/false);
    FAIL("graphs on a CPU");
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kUsage);
    CHECK_THAT(e.what(), Catch::Contains("train.graphs = on") && Catch::Contains("need GPUs"));
  }
  for (const Graphs possible : {Graphs::kAuto, Graphs::kOff}) {
    o.graphs = possible;
    CHECK_NOTHROW(check_graphs(o, /*on_gpu=*/false));
  }
}

TEST_CASE("OnACpuNoWaitCouldBeSeen") {
  TrainOptions o;
  o.sync_debug = true;
  CHECK_NOTHROW(check_graphs(o, /*on_gpu=*/true));
  CHECK_THROWS_WITH(check_graphs(o, /*on_gpu=*/false), Catch::Contains("train.sync_debug = on"));
}
