// SPDX-License-Identifier: Apache-2.0
// Metrics in a run, and the classes of its data.
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "config/value.h"
#include "support/catch.h"
#include "support/lite0_weights.h"
#include "support/pictures.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

// A conditional network that trains in a second or two.
const std::string kConditional =
    "--preset stylegan2-tiny --set stylegan2.channel_max=16 --set stylegan2.z_dim=16 --set "
    "stylegan2.w_dim=16 --set samples.columns=2 --set samples.rows=3 --set data.synth_size=64 "
    "--kimg 0.128 --set save.every=0.064 --cond on ";

// Four pictures of each class, each class in a sub-folder of its name.
void write_classes(const fs::path& data, const std::vector<std::string>& classes) {
  int shift = 0;
  for (const std::string& name : classes) {
    fs::create_directories(data / name);
    for (int i = 0; i < 4; ++i) {
      Image picture = test_picture(16, 16, 3);
      for (uint8_t& value : picture.pixels) value = static_cast<uint8_t>(value + 40 * shift + i);
      write_file(data / name / (std::to_string(i) + ".png"), encode_png(picture));
    }
    ++shift;
  }
}

// The JSON header's "__metadata__" of a safetensors file.
Json metadata_of(const fs::path& model) {
  const std::string bytes = read_file(model);
  uint64_t size = 0;
  std::copy_n(bytes.data(), sizeof(size), reinterpret_cast<char*>(&size));
  return Json::parse(bytes.substr(8, size)).at("__metadata__");
}

// Stops a run of so many ranks while it measures after its first save. Returns what it said.
std::string check_stop_during_metrics(const TemporaryFolder& folder,
                                      int ranks,
                                      const std::string& kimg = "100") {
  Command command(tiny("--nproc " + std::to_string(ranks) + " --run-dir run --save-every 0.5 " +
                       "--metrics swd --set metrics.every=0.5 --set metrics.at_start=false " +
                       "--set metrics.images=60000 --kimg " + kimg),
                  {.folder = folder.path()});
  const auto saved = [&] {
    return fs::is_directory(folder / "run") && files_like(folder / "run", "state-").size() == 1;
  };
  REQUIRE(eventually(saved, 60));
  ::usleep(300'000);
  command.signal(SIGTERM);
  const Outcome outcome = command.wait();
  INFO(outcome.err);
  CHECK(outcome.code == 75);
  CHECK(outcome.left.empty());
  CHECK(holds(outcome.err, "metrics given up, because a stop was asked for"));
  CHECK_FALSE(holds(outcome.err, "metric  swd"));
  CHECK(starts_with(read_file(folder / "run/STATUS"), "stopped"));
  return outcome.err;
}

}  // namespace

TEST_CASE("AStopDuringMetricsGivesThemUpAndLosesNothing") {
  const int ranks = GENERATE(1, 2);
  check_stop_during_metrics(TemporaryFolder(), ranks);
}

TEST_CASE("AStopDuringTheLastMetricsLeavesThemToTheNextSession") {
  const int ranks = GENERATE(1, 2);
  const TemporaryFolder folder;
  const std::string said = check_stop_during_metrics(folder, ranks, "0.5");
  CHECK_FALSE(holds(said, "done    "));
  const std::string words = "metrics given up";
  CHECK(said.find(words) == said.rfind(words));  // once
  const Outcome rest =
      gantrain(tiny("--run-dir run --kimg 0.5 --metrics swd --set metrics.images=64"),
               {.folder = folder.path()});
  INFO(rest.err);
  CHECK(rest.code == 0);
  CHECK(holds(rest.err, "metric  swd"));
  CHECK(starts_with(read_file(folder / "run/STATUS"), "done"));
  CHECK(fs::exists(folder / "run/metric-swd.jsonl"));
}

TEST_CASE("MetricsThatCannotBeComputedAreRefusedBeforeAnythingIsWritten") {
  const TemporaryFolder folder;
  write_file(folder / "text.pt", "no TorchScript");
  struct Case {
    std::string flags;
    int code;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases = {{"--metrics fidd", 2, {"fidd", "fid"}},
                                   {"--metrics fid", 2, {"fid", "--detector"}},
                                   {"--keep-best kid", 2, {"kid", "--detector"}},
                                   {"--keep-best bestt", 2, {"save.keep_best", "bestt"}},
                                   {"--stop-on collaps", 2, {"metrics.stop_on", "collapse"}},
                                   {"--metrics-every 0", 2, {"metrics.every"}},
                                   {"--metrics fid --detector none.pt", 3, {"none.pt"}},
                                   {"--metrics fid --detector text.pt", 3, {"text.pt"}},
                                   {"--nproc 2 --metrics fid --detector text.pt", 3, {"text.pt"}},
                                   {"--keep-best fd_lite0", 2, {"fd_lite0", "--lite0"}},
                                   {"--metrics fd_lite0 --features none.pth", 3, {"none.pth"}},
                                   {"--metrics fd_lite0 --lite0 no.pth", 3, {"given as --lite0"}},
                                   {"--metrics fd_lite0 --features text.pt", 3, {"text.pt"}}};
  for (const Case& one : cases) {
    CAPTURE(one.flags);
    const Outcome outcome = gantrain(tiny("--run-dir r " + one.flags), {.folder = folder.path()});
    INFO(outcome.err);
    CHECK(outcome.code == one.code);
    for (const std::string& part : one.parts) {
      CAPTURE(part);
      CHECK(holds(outcome.err, part));
    }
    CHECK_FALSE(fs::exists(folder / "r/config.json"));
  }
}

TEST_CASE("TheBestModelIsKeptByEfficientNetLite0") {
  const std::string file = published_lite0();
  if (file.empty()) return;
  const TemporaryFolder folder;
  const Outcome run =
      gantrain(tiny("--run-dir run --metrics pr_lite0 --keep-best fd_lite0 --features " + file +
                    " --metrics-every 0.064 --set metrics.images=16 --kimg 0.064"),
               {.folder = folder.path()});
  INFO(run.err);
  REQUIRE(run.code == 0);
  CHECK(holds(run.err, "the published weights"));
  const Json best = Json::parse(read_file(folder / "run/best.json"));
  CHECK(best.at("metric") == "fd_lite0");
  CHECK(best.at("recipe").at("detector") == "EfficientNet-Lite0");
  CHECK(fs::exists(folder / "run/metric-pr_lite0.jsonl"));
}

TEST_CASE("TheBestModelIsKeptAndTheSearchGoesOnWhenTheRunDoes") {
  const TemporaryFolder folder;
  const std::string same =
      "--run-dir run --metrics swd --keep-best swd --metrics-every 0.064 --set metrics.images=64 ";
  const Outcome first = gantrain(tiny(same + "--kimg 0.128"), {.folder = folder.path()});
  INFO(first.err);
  REQUIRE(first.code == 0);
  CHECK(fs::exists(folder / "run/model-best.safetensors"));
  const Json best = Json::parse(read_file(folder / "run/best.json"));
  CHECK(best.at("metric") == "swd");
  const Outcome drawn = gantrain(
      words_of("generate --model run/model-best.safetensors --seeds 0-3 -o grid.png --device cpu"),
      {.folder = folder.path()});
  INFO(drawn.err);
  CHECK(drawn.code == 0);
  const Outcome second = gantrain(tiny(same + "--kimg 0.256"), {.folder = folder.path()});
  INFO(second.err);
  REQUIRE(second.code == 0);
  CHECK(holds(second.err, "best    swd"));
  CHECK(holds(second.err, "so far"));
  const Json later = Json::parse(read_file(folder / "run/best.json"));
  CHECK(later.at("value").get<double>() <= best.at("value").get<double>());
}

// As where a session was killed behind a state: before its metrics, or before the best model of
// them.
TEST_CASE("WhatAKilledSessionDidNotMeasureOrKeepTheNextOneDoes") {
  const TemporaryFolder folder;
  const std::string same =
      "--metrics swd --keep-best swd --metrics-every 0.064 --set metrics.images=64 "
      "--set metrics.at_end=off ";
  for (const bool measured : {false, true}) {
    CAPTURE(measured);
    const std::string name = measured ? "measured" : "not";
    const fs::path run = train(folder, name, same + "--kimg 0.064");
    const std::string rows = read_file(run / "metric-swd.jsonl");
    const size_t second = rows.find('\n') + 1;
    const Json row = Json::parse(rows.substr(second));
    CHECK(row.at("kimg") == 0.064);
    if (!measured) write_file(run / "metric-swd.jsonl", rows.substr(0, second));
    fs::remove(run / "best.json");
    write_file(run / "STATUS", "running\n");
    train(folder, name, same + "--kimg 0.08 --nproc 2");
    const std::string again = read_file(run / "metric-swd.jsonl");
    CHECK(again.substr(0, second) == rows.substr(0, second));
    const Json made_up = Json::parse(again.substr(second));  // no other row
    CHECK(made_up.at("kimg") == 0.064);
    CHECK(made_up.at("results") == row.at("results"));
    const Json best = Json::parse(read_file(run / "best.json"));
    CHECK(best.at("kimg") == 0.064);
    CHECK(best.at("value") == row.at("results").at("swd"));
    CHECK(holds(metadata_of(run / "model-best.safetensors").dump(), "0.064"));
  }
}

TEST_CASE("TheClassesOfARunStandInItsFilesAndAreListedAtItsStart") {
  const TemporaryFolder folder;
  write_classes(folder / "data", {"cat", "dog", "eel"});
  const std::string same = kConditional + "--data data ";
  const Outcome outcome = gantrain(tiny("--run-dir run " + same), {.folder = folder.path()});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(holds(outcome.err, "classes 3"));
  CHECK(holds(outcome.err, "1  dog  4 pictures"));
  const Json expected = {{{"name", "cat"}, {"pictures", 4}},
                         {{"name", "dog"}, {"pictures", 4}},
                         {{"name", "eel"}, {"pictures", 4}}};
  CHECK(Json::parse(read_file(folder / "run/config.json")).at("classes") == expected);
  for (const fs::path& model : files_like(folder / "run", "model-")) {
    CAPTURE(model);
    CHECK(Json::parse(metadata_of(model).at("gantrain.classes").get<std::string>()) == expected);
  }
  // Such a config.json starts the same run again.
  const Outcome again = gantrain(words_of("--config run/config.json --run-dir again --data data"),
                                 {.folder = folder.path()});
  INFO(again.err);
  REQUIRE(again.code == 0);
  CHECK(model_sha(folder / "again") == model_sha(folder / "run"));
}

TEST_CASE("AConditionalRunResumesExactlyAndNotWithOtherClasses") {
  const TemporaryFolder folder;
  write_classes(folder / "data", {"cat", "dog"});
  const std::string same = kConditional + "--data data --nproc 2 ";
  const std::string whole = model_sha(train(folder, "whole", same));
  train(folder, "parts", same + "--kimg 0.064");
  fs::rename(folder / "data/dog", folder / "data/eel");
  const Outcome refused = gantrain(tiny("--run-dir parts " + same), {.folder = folder.path()});
  INFO(refused.err);
  CHECK(refused.code == 2);
  CHECK(holds(refused.err, "class 1 is \"eel\" and was \"dog\""));
  fs::rename(folder / "data/eel", folder / "data/dog");
  CHECK(model_sha(train(folder, "parts", same)) == whole);
}

TEST_CASE("LabelsThatAreNotUsedAreKeptInTheConfigurationAlone") {
  const TemporaryFolder folder;
  write_classes(folder / "data", {"cat", "dog"});
  const Outcome outcome =
      gantrain(tiny("--run-dir run --kimg 0.032 --data data"), {.folder = folder.path()});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(holds(outcome.err, "labels are not used"));
  CHECK(Json::parse(read_file(folder / "run/config.json")).at("classes").size() == 2);
  for (const fs::path& model : files_like(folder / "run", "model-"))
    CHECK_FALSE(metadata_of(model).contains("gantrain.classes"));
}

}  // namespace gantrain
