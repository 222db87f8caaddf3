// SPDX-License-Identifier: Apache-2.0
#include "train/options.h"

#include "support/catch.h"
#include "util/error.h"

using namespace gantrain;

TEST_CASE("MetricsAreNamedOrNone") {
  MetricsOptions o;
  CHECK(metric_names(o, {}) == std::vector<std::string>{"swd", "msssim"});
  o.names = "none";
  CHECK(metric_names(o, {}).empty());
  o.names = "msssim";
  CHECK(metric_names(o, {}) == std::vector<std::string>{"msssim"});
  o.names = "swd,fidd";
  CHECK_THROWS_WITH(metric_names(o, {}), Catch::Contains("fidd is not a metric"));
}

TEST_CASE("TheMetricOfTheBestModelIsMeasuredToo") {
  MetricsOptions o;
  SaveOptions save;
  save.keep_best = "swd";
  CHECK(metric_names(o, save) == std::vector<std::string>{"swd", "msssim"});
  o.names = "none";
  CHECK(metric_names(o, save) == std::vector<std::string>{"swd"});
  save.keep_best = "swdd";
  CHECK_THROWS_WITH(metric_names(o, save), Catch::Contains("save.keep_best = swdd"));
  save.keep_best = "swd,msssim";
  CHECK_THROWS_WITH(metric_names(o, save), Catch::Contains("one metric"));
}

TEST_CASE("MetricsThatLackSomethingAreRefusedBeforeTraining") {
  const auto refusal = [](const MetricsOptions& o, const SaveOptions& save = {}) {
    try {
      check_metric_options(o, save, "photos");
      return std::pair(Exit::kDone, std::string());
    } catch (const UserError& e) {
      return std::pair(e.code(), std::string(e.what()));
    }
  };
  MetricsOptions o;
  CHECK(refusal(o).first == Exit::kDone);
  o.every = Kimg{0};
  CHECK(refusal(o).first == Exit::kUsage);
  CHECK_THAT(refusal(o).second, Catch::Contains("metrics.every = 0"));
  o.every.reset();
  o.names = "fid";
  CHECK(refusal(o).first == Exit::kUsage);
  CHECK_THAT(refusal(o).second, Catch::Contains("--detector"));
  o.names = "modes";
  CHECK_THAT(refusal(o).second, Catch::Contains("synth:shapes"));
  o.names = "swd";
  CHECK_THAT(refusal(o, {.keep_best = "kid"}).second, Catch::Contains("--detector"));
  o.names = "fd_lite0";
  CHECK(refusal(o).first == Exit::kUsage);
  CHECK_THAT(refusal(o).second, Catch::Contains("--lite0") && Catch::Contains("features"));
  o.features = "no such file.pth";
  CHECK(refusal(o).first == Exit::kInput);
  CHECK_THAT(refusal(o).second, Catch::Contains("no such file.pth"));
  o.names = "swd";  // the file may be there for training
  o.features.clear();
  CHECK(refusal(o).first == Exit::kDone);
  o.detector = "no such file.pt";
  CHECK(refusal(o).first == Exit::kInput);
  CHECK_THAT(refusal(o).second, Catch::Contains("no such file.pt"));
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
