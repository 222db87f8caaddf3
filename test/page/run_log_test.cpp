// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "page/run_record.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "util/file.h"

namespace gantrain {
namespace {

TEST_CASE("StatsAreReadAsCurvesAndBrokenLinesAreSkipped") {
  const TemporaryFolder folder;
  write_file(
      folder.path() / "stats.jsonl",
      R"({"Progress/kimg":{"num":1,"mean":1.0,"std":0},"x":{"num":2,"mean":5,"std":0},"timestamp":1}
not json
[1,2]
{"resume":1}
{"Progress/kimg":{"num":1,"mean":2.0,"std":0},"x":{"num":0,"mean":null,"std":null,"bad":2}}
{"Progress/kimg":{"num":1,"mean":3.0,"std":0},"x":{"num":2,"me)");
  const std::map<std::string, Curve> curves = read_stats(folder.path());
  REQUIRE(curves.size() == 2);
  const Curve& x = curves.at("x");
  REQUIRE(x.size() == 2);
  CHECK(x[0] == std::pair(1.0, 5.0));
  CHECK(x[1].first == 2);
  CHECK(std::isnan(x[1].second));
}

TEST_CASE("WhatAResumedRunDidAgainReplacesWhatItHadDone") {
  const TemporaryFolder folder;
  std::string text;
  int row = 0;
  for (const int kimg : {1, 2, 3, 4, 3, 4, 5}) {
    text += R"({"Progress/kimg":{"mean":)" + std::to_string(kimg) + R"(},"x":{"mean":)" +
            std::to_string(row++) + "}}\n";
  }
  write_file(folder.path() / "stats.jsonl", text);
  CHECK(read_stats(folder.path()).at("x") == Curve{{1, 0}, {2, 1}, {3, 4}, {4, 5}, {5, 6}});
}

TEST_CASE("MetricsAreReadByKimgOrBySnapshot") {
  const TemporaryFolder folder;
  write_file(folder.path() / "metric-swd.jsonl",
             R"({"results":{"swd":50,"swd_32":40},"metric":"swd","kimg":0}
{"results":{"swd":20,"swd_32":null},"metric":"swd","snapshot":"model-000200.160.safetensors"}
{"results":{"swd":10}}
)");
  write_file(folder.path() / "metric-pr.jsonl",
             R"({"results":{"precision":0.5,"recall":0.1},"kimg":10})");
  const std::map<std::string, Curve> curves = read_metrics(folder.path());
  CHECK(curves.size() == 4);
  CHECK(curves.at("swd") == Curve{{0, 50}, {200.16, 20}});
  CHECK(curves.at("swd/swd_32").size() == 2);
  CHECK(curves.at("pr/recall") == Curve{{10, 0.1}});
}

TEST_CASE("ResultsOfAnotherRecipeAreACurveOfTheirOwn") {
  const TemporaryFolder folder;
  write_file(folder.path() / "metric-fid.jsonl",
             R"({"results":{"fid":50},"kimg":100,"recipe":{"fakes":1024,"seed":0}}
{"results":{"fid":40},"kimg":200,"recipe":{"fakes":1024,"seed":0}}
{"results":{"fid":30},"kimg":200,"recipe":{"fakes":50000,"seed":0}}
{"results":{"fid":31},"kimg":200,"recipe":{"fakes":50000,"seed":1}}
{"results":{"fid":35},"kimg":150,"recipe":{"fakes":1024,"seed":0}}
)");
  const std::map<std::string, Curve> curves = read_metrics(folder.path());
  CHECK(curves.size() == 3);
  CHECK(curves.at("fid") == Curve{{100, 50}, {150, 35}, {200, 40}});  // one was measured later
  CHECK(curves.at("fid (50000 fakes)") == Curve{{200, 30}});
  CHECK(curves.at("fid (recipe 3)") == Curve{{200, 31}});
}

TEST_CASE("AFolderWithoutFilesHasNoCurves") {
  const TemporaryFolder folder;
  CHECK(read_stats(folder.path()).empty());
  CHECK(read_metrics(folder.path()).empty());
  CHECK(read_metrics(folder.path() / "missing").empty());
}

}  // namespace
}  // namespace gantrain
