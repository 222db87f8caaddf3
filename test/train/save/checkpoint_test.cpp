// SPDX-License-Identifier: Apache-2.0
#include "train/save/checkpoint.h"

#include <sys/stat.h>

#include "core/archive.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"
#include "train/step/toy_recipe.h"
#include "util/error.h"
#include "util/file.h"

using namespace gantrain;

namespace {

NamedTensors some_state(double value) {
  return {{"G/a", torch::full({3}, value)}, {"G.opt/step/a", torch::tensor(value)}};
}

Counters at_images(int64_t images) { return {images, images / 8, 1, 2.5}; }

}  // namespace

TEST_CASE("TheNewestStateComesBackWithItsCounters") {
  const TemporaryFolder run;
  const Config config = toy_config();
  save_state(run / "state-000001.pt", some_state(1), at_images(1000), config);
  Counters last = at_images(2000);
  last.micro_batch = 16;
  save_state(run / "state-000002.pt", some_state(2), last, config);
  const NamedTensors state = some_state(0);
  Counters counters;
  CHECK(load_newest(run.path(), state, counters, config, "") == run / "state-000002.pt");
  CHECK(counters.micro_batch == 16);
  CHECK(counters.images_seen == 2000);
  CHECK(counters.iteration == 250);
  CHECK(counters.seconds == 2.5);
  CHECK(state[0].second[1].item<float>() == 2);
}

TEST_CASE("ABrokenStateIsPassedOverAndNeverLoaded") {
  const TemporaryFolder run;
  const Config config = toy_config();
  save_state(run / "state-000001.pt", some_state(1), at_images(1000), config);
  save_state(run / "state-000002.pt", some_state(2), at_images(2000), config);
  std::string bytes = read_file(run / "state-000002.pt");
  bytes[bytes.size() / 2] ^= 4;
  write_file(run / "state-000002.pt", bytes);
  const NamedTensors state = some_state(0);
  Counters counters;
  CHECK(load_newest(run.path(), state, counters, config, "") == run / "state-000001.pt");
  CHECK(state[0].second[0].item<float>() == 1);
  CHECK_THROWS_AS(load_newest(run / "state-000002.pt", state, counters, config, ""), UserError);
  write_file(run / "state-000001.pt", "PK");
  CHECK_THROWS_WITH(load_newest(run.path(), state, counters, config, ""),
                    Catch::Contains("none of its 2 states"));
}

TEST_CASE("AnotherConfigurationIsRefusedByKeyUnlessForced") {
  const TemporaryFolder run;
  save_state(run / "state-000001.pt", some_state(1), at_images(1000), toy_config());
  const NamedTensors state = some_state(0);
  Counters counters;
  const Config other = toy_config(
      {{"G.sgd.lr", 0.5}, {"train.kimg", 7}, {"train.graphs", "off"}, {"data.workers", 3}});
  CHECK_THROWS_WITH(load_newest(run.path(), state, counters, other, ""),
                    Catch::Contains("G.sgd.lr 0.01 -> 0.5") &&
                        Catch::Contains("--force G.sgd.lr") && !Catch::Contains("kimg 0.08"));
  CHECK_NOTHROW(load_newest(run.path(), state, counters, other, "G.sgd.lr"));
  CHECK_NOTHROW(load_newest(run.path(), state, counters, other, "all"));
}

TEST_CASE("ATensorOfAnotherShapeIsNamed") {
  const TemporaryFolder run;
  const Config config = toy_config();
  save_state(run / "state-000001.pt", some_state(1), at_images(1000), config);
  Counters counters;
  const NamedTensors state = {{"G/a", torch::zeros({4})}, {"G.opt/step/a", torch::tensor(0.0)}};
  CHECK_THROWS_WITH(load_newest(run / "state-000001.pt", state, counters, config, ""),
                    Catch::Contains("tensor G/a"));
}

TEST_CASE("AnEmptyFolderHoldsNothingToResume") {
  const TemporaryFolder run;
  Counters counters;
  CHECK(load_newest(run.path(), some_state(0), counters, toy_config(), "").empty());
}

TEST_CASE("AStateOfOtherClassesIsRefusedByNameUnlessForced") {
  const TemporaryFolder run;
  const Config config = toy_config();
  const ClassTable classes = {{"circle", 5}, {"square", 6}};
  save_state(run / "state-000001.pt", some_state(1), at_images(1000), config, classes);
  const NamedTensors state = some_state(0);
  Counters counters;
  const auto load = [&](const std::string& force, const ClassTable& now) {
    load_newest(run.path(), state, counters, config, force, now);
  };
  CHECK_NOTHROW(load("", classes));
  CHECK_NOTHROW(load("", {{"circle", 50}, {"square", 60}}));
  const ClassTable other = {{"circle", 5}, {"star", 6}};
  CHECK_THROWS_WITH(
      load("", other),
      Catch::Contains("class 1 is \"star\" and was \"square\"") && Catch::Contains("--force data"));
  CHECK_NOTHROW(load("data", other));
  CHECK_NOTHROW(load("all", other));
  CHECK_THROWS_WITH(load("data", {{"circle", 5}}), Catch::Contains("\"square\" is missing"));
}

TEST_CASE("AStateThatIsOlderThanTheTableOfClassesFitsAll") {
  const TemporaryFolder run;
  const Config config = toy_config();
  save_state(run / "state-000001.pt", some_state(1), at_images(1000), config);
  Counters counters;
  CHECK_NOTHROW(
      load_newest(run.path(), some_state(0), counters, config, "", {{"circle", 5}, {"star", 6}}));
}

TEST_CASE("WhatMetricsHaveCostComesBack") {
  const TemporaryFolder run;
  const Config config = toy_config();
  Counters saved = at_images(1000);
  saved.metric_seconds = 12.5;
  saved.last_metric_seconds = 1.25;
  save_state(run / "state-000001.pt", some_state(1), saved, config);
  Counters counters;
  load_newest(run.path(), some_state(0), counters, config, "");
  CHECK(counters.metric_seconds == 12.5);
  CHECK(counters.last_metric_seconds == 1.25);
}

TEST_CASE("WhatIsNoRegularFileIsSkippedForTheStateBeforeIt") {
  const TemporaryFolder run;
  const Config config = toy_config();
  save_state(run / "state-000001.pt", some_state(1), at_images(1000), config);
  REQUIRE(::mkfifo((run / "state-000002.pt").c_str(), 0644) == 0);
  std::filesystem::create_directory(run / "state-000003.pt");
  std::filesystem::create_symlink("state-000004.pt", run / "state-000004.pt");
  std::filesystem::create_symlink("/dev/zero", run / "state-000005.pt");
  const NamedTensors state = some_state(0);
  Counters counters;
  CHECK(load_newest(run.path(), state, counters, config, "") == run / "state-000001.pt");
  CHECK(counters.images_seen == 1000);
}

TEST_CASE("AStateOfUnsoundCountersIsSkippedForTheOneBeforeIt") {
  const Config config = toy_config();
  for (const char* key : {"images_seen", "iteration", "tick", "seconds", "stage", "config"}) {
    for (const Json& value : {Json("many"), Json(-1), Json(), Json::array({1}), Json(1e30)}) {
      const bool fits = std::string(key) == "seconds" && value == Json(1e30);
      if (fits) continue;
      CAPTURE(key, value.dump());
      const TemporaryFolder run;
      save_state(run / "state-000001.pt", some_state(1), at_images(1000), config);
      save_state(run / "state-000002.pt", some_state(2), at_images(2000), config);
      Archive archive = load_archive(run / "state-000002.pt");
      Json meta = Json::parse(archive.meta);
      meta[key] = value;
      archive.meta = meta.dump();
      save_archive(run / "state-000002.pt", archive);
      const NamedTensors state = some_state(0);
      Counters counters;
      CHECK(load_newest(run.path(), state, counters, config, "") == run / "state-000001.pt");
      CHECK_THROWS_WITH(load_newest(run / "state-000002.pt", state, counters, config, ""),
                        Catch::Contains("state-000002.pt") && Catch::Contains(key));
    }
  }
}
