// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "core/tensor_files.h"
#include "core/torch.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "train/run/run_metrics.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

using namespace gantrain;
namespace fs = std::filesystem;

namespace {

Json line(const std::string& metric, double value, const std::string& seed = "0") {
  return {{"metric", metric}, {"results", {{metric, value}}}, {"recipe", {{"seed", seed}}}};
}

// A model whose metadata tells the number of images.
void write_model(const fs::path& path, int64_t images) {
  save_safetensors(path,
                   {{"weight", torch::zeros({1})}},
                   {{"gantrain.kimg", shortest(static_cast<double>(images) / 1e3)},
                    {"images", std::to_string(images)}});
}

// Offers a value at so many images.
bool offer(KeepBest& best, const Json& json, int64_t images) {
  return best.offer(json, images, [&](const fs::path& path, const std::function<void()>& then) {
    write_model(path, images);
    then();
  });
}

Json record(const TemporaryFolder& run) { return Json::parse(read_file(run / "best.json")); }
std::string model(const TemporaryFolder& run, const std::string& prefix = "") {
  return load_safetensors(run / (prefix + "model-best.safetensors")).metadata.at("images");
}

}  // namespace

TEST_CASE("TheModelWithTheLeastDistanceIsKept") {
  set_log({Level::kError, Level::kInfo, {}, ""});
  const TemporaryFolder run;
  KeepBest best(run.path(), "swd", 0);
  CHECK(offer(best, line("swd", 20), 1000));
  CHECK(offer(best, line("swd", 12.5), 2000));
  CHECK_FALSE(offer(best, line("swd", 12.5), 3000));
  CHECK_FALSE(offer(best, line("swd", 19), 4000));
  CHECK_FALSE(offer(best, line("msssim", 0.1), 5000));
  CHECK(model(run) == "2000");
  CHECK(record(run)["metric"] == "swd");
  CHECK(record(run)["value"] == 12.5);
  CHECK(record(run)["kimg"] == 2);
  CHECK(record(run)["recipe"]["seed"] == "0");
}

TEST_CASE("OfSomeMetricsTheLargestIsBest") {
  set_log({Level::kError, Level::kInfo, {}, ""});
  const TemporaryFolder run;
  KeepBest best(run.path(), "diversity", 0);
  offer(best, line("diversity", 0.5), 1000);
  offer(best, line("diversity", 0.9), 2000);
  CHECK_FALSE(offer(best, line("diversity", 0.6), 3000));
  CHECK(model(run) == "2000");
}

TEST_CASE("NumbersThatAreNotFiniteAreNeverBest") {
  const TemporaryFolder run;
  KeepBest best(run.path(), "swd", 0);
  CHECK_FALSE(offer(best, line("swd", std::numeric_limits<double>::quiet_NaN()), 1000));
  CHECK_FALSE(offer(best, line("swd", -std::numeric_limits<double>::infinity()), 1000));
  CHECK_FALSE(offer(best, {{"metric", "swd"}, {"results", {{"swd", nullptr}}}}, 1000));
  CHECK_FALSE(fs::exists(run / "best.json"));
}

TEST_CASE("AResumedRunGoesOnFromTheBestSoFar") {
  set_log({Level::kError, Level::kInfo, {}, ""});
  const TemporaryFolder run;
  {
    KeepBest best(run.path(), "swd", 0);
    offer(best, line("swd", 10), 1000);
  }
  KeepBest again(run.path(), "swd", 1000);
  CHECK_FALSE(offer(again, line("swd", 11), 2000));
  CHECK(model(run) == "1000");
  CHECK(offer(again, line("swd", 9), 3000));
  CHECK(model(run) == "3000");
}

TEST_CASE("WhatAnEarlierStateLeavesBehindIsSetAside") {
  set_log({Level::kError, Level::kError, {}, ""});
  const TemporaryFolder run;
  {
    KeepBest best(run.path(), "swd", 0);
    offer(best, line("swd", 10), 5000);
  }
  KeepBest again(run.path(), "swd", 4000);
  CHECK_FALSE(again.best());
  CHECK(fs::exists(run / "superseded-model-best.safetensors"));
  CHECK(fs::exists(run / "superseded-best.json"));
  CHECK(offer(again, line("swd", 11), 4500));
  CHECK(model(run) == "4500");
}

TEST_CASE("AModelThatIsNotTheRecordsIsSetAside") {
  set_log({Level::kError, Level::kError, {}, ""});
  const TemporaryFolder run;
  {
    KeepBest best(run.path(), "swd", 0);
    offer(best, line("swd", 10), 1160);
  }
  CHECK(KeepBest(run.path(), "swd", 2000).best());
  write_model(run / "model-best.safetensors", 2000);  // and the session ended
  KeepBest again(run.path(), "swd", 3000);
  CHECK_FALSE(again.best());
  CHECK(model(run, "superseded-") == "2000");
  CHECK(offer(again, line("swd", 11), 4000));
}

TEST_CASE("ValuesOfAnotherRecipeAreNotCompared") {
  set_log({Level::kError, Level::kError, {}, ""});
  const TemporaryFolder run;
  KeepBest best(run.path(), "swd", 0);
  offer(best, line("swd", 10, "0"), 1000);
  CHECK(offer(best, line("swd", 30, "1"), 2000));
  CHECK(model(run) == "2000");
  CHECK(model(run, "superseded-") == "1000");
  CHECK_FALSE(offer(best, line("swd", 31, "1"), 3000));
}

TEST_CASE("AnotherMetricOrABrokenRecordBeginsAnew") {
  set_log({Level::kError, Level::kError, {}, ""});
  const TemporaryFolder run;
  {
    KeepBest best(run.path(), "swd", 0);
    offer(best, line("swd", 10), 1000);
  }
  {
    KeepBest other(run.path(), "msssim", 1000);
    CHECK_FALSE(other.best());
    CHECK(offer(other, line("msssim", 0.9), 2000));
  }
  for (const char* broken : {"{", "[]", "{}", R"({"metric": "msssim", "value": "x", "kimg": 1})"}) {
    CAPTURE(broken);
    write_file(run / "best.json", broken);
    write_file(run / "model-best.safetensors", "x");
    CHECK_FALSE(KeepBest(run.path(), "msssim", 3000).best());
  }
  CHECK_THROWS_WITH(KeepBest(run.path(), "fidd", 0), Catch::Contains("fidd is not a metric"));
}
