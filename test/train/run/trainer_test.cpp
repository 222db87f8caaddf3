// SPDX-License-Identifier: Apache-2.0
#include "train/run/trainer.h"

#include <torch/script.h>

#include <cmath>
#include <csignal>
#include <map>

#include "core/device.h"
#include "core/tensor_files.h"
#include "core/tensors.h"
#include "gan/class_table.h"
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"
#include "train/save/run_folder.h"
#include "train/step/toy_recipe.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

using namespace gantrain;
namespace fs = std::filesystem;

namespace {

Exit run_rank(const fs::path& folder,
              const std::map<std::string, Json>& changes,
              const Rendezvous& rendezvous,
              int64_t stop_at = -1) {
  set_log({Level::kError, Level::kInfo, {}, ""});
  std::map<std::string, Json> all = changes;
  all["run.run_dir"] = folder.string();
  const Config config = toy_config(all);
  TrainSetup setup{
      config, rendezvous, BackendKind::kGloo, at::kCPU, toy_row(), "test", "", {}, {}, nullptr};
  int64_t seen = 0;
  setup.callbacks.progress = [&](int64_t images, int64_t) { seen = images; };
  setup.callbacks.stop_signal = [&] { return stop_at >= 0 && seen >= stop_at ? SIGTERM : 0; };
  return train(setup);
}

Exit run(const fs::path& folder,
         const std::map<std::string, Json>& changes = {},
         int64_t stop_at = -1) {
  return run_rank(folder, changes, {}, stop_at);
}

std::vector<Json> lines_of(const fs::path& file) {
  std::vector<Json> lines;
  for (const std::string& line : split(read_file(file), '\n')) {
    if (!line.empty()) lines.push_back(Json::parse(line));
  }
  return lines;
}

std::string weights_of(const fs::path& folder) {
  return read_file(folder / "model-000000.080.safetensors");
}

}  // namespace

TEST_CASE("ARunLeavesItsFiles") {
  const TemporaryFolder folder;
  CHECK(run(folder / "run") == Exit::kDone);
  for (const char* name : {"config.json",
                           "command.txt",
                           "env.json",
                           "log.txt",
                           "stats.jsonl",
                           "STATUS",
                           "report.html",
                           "samples/reals.png",
                           "samples/fakes_init.png",
                           "samples/latest.png",
                           "model-000000.000.safetensors",
                           "state-000000.080.pt",
                           "model-000000.080.safetensors"}) {
    CAPTURE(name);
    CHECK(fs::exists(folder / "run" / name));
  }
  CHECK(read_status(folder / "run") == "done 0.08 kimg");
}

TEST_CASE("StopAndResumeGivesTheSameBitsAsNoStop") {
  const TemporaryFolder folder;
  run(folder / "whole");
  CHECK(run(folder / "parts", {}, 16) == Exit::kStopped);
  CHECK(run(folder / "parts", {}, 40) == Exit::kStopped);
  CHECK(run(folder / "parts") == Exit::kDone);
  CHECK(weights_of(folder / "parts") == weights_of(folder / "whole"));
}

TEST_CASE("SamplesAndMetricsLeaveNoTrace") {
  const TemporaryFolder folder;
  run(folder / "without");
  run(folder / "with",
      {{"metrics.names", "swd,msssim"},
       {"metrics.every", 0.016},
       {"metrics.images", 8},
       {"samples.every", 0.008}});
  CHECK(weights_of(folder / "with") == weights_of(folder / "without"));
  CHECK(fs::exists(folder / "with/metric-swd.jsonl"));
}

TEST_CASE("LoadingThreadsDoNotChangeTheResult") {
  const TemporaryFolder folder;
  run(folder / "a", {{"data.workers", 0}});
  run(folder / "b", {{"data.workers", 2}});
  CHECK(weights_of(folder / "a") == weights_of(folder / "b"));
}

TEST_CASE("TheSeedChangesTheResult") {
  const TemporaryFolder folder;
  run(folder / "a");
  run(folder / "b", {{"train.seed", 1}});
  CHECK(weights_of(folder / "a") != weights_of(folder / "b"));
}

TEST_CASE("MetricsGoThroughTheRunAtItsCadence") {
  const TemporaryFolder folder;
  run(folder / "run", {{"metrics.names", "swd"}, {"metrics.every", 0.032}, {"metrics.images", 8}});
  std::vector<double> at;
  for (const Json& line : lines_of(folder / "run/metric-swd.jsonl"))
    at.push_back(line.at("kimg").get<double>());
  CHECK(at == std::vector<double>{0, 0.032, 0.064, 0.08});
  const Json last = lines_of(folder / "run/metric-swd.jsonl").back();
  CHECK(last.at("num_gpus") == 1);
  CHECK(last.at("snapshot") == "model-000000.080.safetensors");
  CHECK(last.at("snapshot_pkl") == last.at("snapshot"));
  for (const char* key : {"results", "recipe", "total_time", "total_time_str", "timestamp"}) {
    CAPTURE(key);
    CHECK(last.contains(key));
  }
}

TEST_CASE("MeasurementsAtTheStartAndAtTheEndCanBeLeftOut") {
  const TemporaryFolder folder;
  run(folder / "run",
      {{"metrics.names", "swd"},
       {"metrics.every", 0.032},
       {"metrics.images", 8},
       {"metrics.at_start", false},
       {"metrics.at_end", false}});
  CHECK(lines_of(folder / "run/metric-swd.jsonl").size() == 2);
}

TEST_CASE("TheBestModelOfARunIsKept") {
  const TemporaryFolder folder;
  run(folder / "run", {{"save.keep_best", "swd"}, {"metrics.every", 0.016}, {"metrics.images", 8}});
  double least = 1e300, at = -1;
  for (const Json& line : lines_of(folder / "run/metric-swd.jsonl")) {
    const double value = line.at("results").at("swd").get<double>();
    if (value < least) at = line.at("kimg").get<double>();
    least = std::min(least, value);
  }
  const Json best = Json::parse(read_file(folder / "run/best.json"));
  CHECK(best.at("metric") == "swd");
  CHECK(best.at("value").get<double>() == least);
  CHECK(best.at("kimg").get<double>() == at);
  const TensorFile model = load_safetensors(folder / "run/model-best.safetensors");
  CHECK(parse_double(model.metadata.at("gantrain.kimg")) == at);
}

namespace {

// A toy whose G ignores z and learns nothing.
const std::map<std::string, Json> kCollapsed = {{"G.sgd.lr", 0.0},
                                                {"toy.ignores_z", true},
                                                {"data.synth_size", 256},
                                                {"metrics.collapse_after", 0.01},
                                                {"metrics.stop_on", "collapse"}};

}  // namespace

TEST_CASE("ACollapsedRunIsSavedAndEndsAsDiverged") {
  const TemporaryFolder folder;
  try {
    run(folder / "run", kCollapsed);
    FAIL("nothing was noticed");
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kDiverged);
    CHECK_THAT(e.what(), Catch::Contains("collapse"));
  }
  // There are ticks at 0.024, 0.032 and 0.04 kimg.
  CHECK_THAT(read_status(folder / "run"), Catch::Contains("0.04 kimg (collapse"));
  CHECK(fs::exists(folder / "run/state-000000.040.pt"));
  CHECK(fs::exists(folder / "run/model-000000.040.safetensors"));
}

TEST_CASE("WithoutStopOnACollapsedRunIsWarnedOfAndGoesOn") {
  const TemporaryFolder folder;
  std::map<std::string, Json> warned = kCollapsed;
  warned["metrics.stop_on"] = "off";
  warned["metrics.names"] = "msssim";
  warned["metrics.images"] = 4;
  warned["metrics.every"] = 0.016;  // given, so that the cost does not count
  CHECK(run(folder / "run", warned) == Exit::kDone);
  CHECK_THAT(read_file(folder / "run/log.txt"), Catch::Contains("have collapsed"));
  CHECK(lines_of(folder / "run/stats.jsonl").back().at("Progress/distinctness").at("mean") == 0);
}

TEST_CASE("AToyThatUsesItsLatentsHasNotCollapsed") {
  const TemporaryFolder folder;
  CHECK(run(folder / "run",
            {{"data.synth_size", 256},
             {"metrics.collapse_after", 0},
             {"metrics.stop_on", "collapse"}}) == Exit::kDone);
}

TEST_CASE("DataOfAHandfulOfPicturesRaisesNoAlarm") {
  const TemporaryFolder folder;
  std::map<std::string, Json> few = kCollapsed;
  few["data.synth_size"] = 23;
  CHECK(run(folder / "run", few) == Exit::kDone);
  CHECK_THAT(read_file(folder / "run/log.txt"), Catch::Contains("too few pictures to tell"));
}

TEST_CASE("AGrantedStopDoesNotWaitForAMeasurementThatIsDue") {
  const TemporaryFolder folder;
  const std::map<std::string, Json> measured = {
      {"metrics.names", "swd"}, {"metrics.every", 0.008}, {"metrics.images", 8}};
  CHECK(run(folder / "run", measured, 16) == Exit::kStopped);
  // From 0.016 kimg on those that are begun are given up; the one at the stop is not begun.
  const double end = parse_double(split(read_status(folder / "run"), ' ').at(1)).value();
  const std::string log = read_file(folder / "run/log.txt"), words = "metrics given up";
  int64_t given_up = 0;
  for (size_t at = log.find(words); at != std::string::npos; at = log.find(words, at + 1))
    ++given_up;
  CHECK(given_up == std::lround((end - 0.016) / 0.008));
}

TEST_CASE("MetricsThatLackPicturesEndTheRunBeforeAFolderIsMade") {
  const TemporaryFolder folder;
  torch::jit::Module network("means");
  network.define("def forward(self, x):\n    return x.float().mean([2, 3])\n");
  network.save((folder / "means.pt").string());
  try {
    run(folder / "run",
        {{"metrics.names", "swd,dc"},
         {"metrics.images", 4},
         {"metrics.detector", (folder / "means.pt").string()}});
    FAIL("four pictures have no five neighbours");
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kInput);
    CHECK_THAT(e.what(), Catch::Contains("dc needs 6 pictures"));
  }
  CHECK_FALSE(fs::exists(folder / "run/config.json"));
}

TEST_CASE("TwoRanksEndInTheSameBitsWithAndWithoutMetrics") {
  const TemporaryFolder folder;
  const auto train_pair = [&](const std::string& name, std::map<std::string, Json> changes) {
    changes["data.synth_size"] = 256;  // enough to look for collapse
    return failed_ranks(2, [&, changes](const Rendezvous& r) {
      return run_rank(folder / name, changes, r) == Exit::kDone ? 0 : 1;
    });
  };
  CHECK(train_pair("without", {}) == 0);
  CHECK(train_pair("with",
                   {{"metrics.names", "swd,msssim,diversity"},
                    {"metrics.every", 0.016},
                    {"metrics.images", 8},
                    {"metrics.stop_on", "collapse"},
                    {"samples.every", 0.008}}) == 0);
  CHECK(weights_of(folder / "with") == weights_of(folder / "without"));
  CHECK(lines_of(folder / "with/metric-swd.jsonl").back().at("num_gpus") == 2);
}

TEST_CASE("ADetectorThatIsNoneIsRefusedBeforeAFolderIsMade") {
  const TemporaryFolder folder;
  write_file(folder / "text.pt", "no TorchScript");
  CHECK_THROWS_WITH(run(folder / "run", {{"metrics.detector", (folder / "text.pt").string()}}),
                    Catch::Contains("text.pt"));
  CHECK_FALSE(fs::exists(folder / "run/config.json"));
}

TEST_CASE("TheClassesOfLabelledDataStandInConfigJson") {
  const TemporaryFolder folder;
  run(folder / "run");
  const Json config = Json::parse(read_file(folder / "run/config.json"));
  const ClassTable classes = classes_from_json(config.at("classes"), "config.json");
  CHECK(classes.size() == 10);  // of synth:shapes, which the toy uses without labels
  const TensorFile model = load_safetensors(folder / "run/model-000000.080.safetensors");
  CHECK(model.metadata.count("gantrain.classes") == 0);
}

namespace {

bool waits_are_errors = false;

// What the trainer says that it does, and whether a wait would be an error then. The CPU plays a
// device that the host can wait for.
std::vector<std::pair<std::string, bool>> watched(const fs::path& folder, bool sync_debug) {
  set_log({Level::kError, Level::kInfo, {}, ""});
  set_wait_errors(c10::DeviceType::CPU, [](bool on) { waits_are_errors = on; });
  const Config config = toy_config({{"run.run_dir", folder.string()},
                                    {"samples.every", 0.024},
                                    {"train.sync_debug", sync_debug}});
  TrainSetup setup{
      config, {}, BackendKind::kGloo, at::kCPU, toy_row(), "test", "", {}, {}, nullptr};
  std::vector<std::pair<std::string, bool>> seen;
  setup.callbacks.phase = [&](const std::string& name) {
    seen.emplace_back(name, waits_are_errors);
  };
  const Exit end = train(setup);
  set_wait_errors(c10::DeviceType::CPU, nullptr);
  CHECK(end == Exit::kDone);
  CHECK_FALSE(waits_are_errors);
  return seen;
}

}  // namespace

TEST_CASE("UnderSyncDebugIterationsMayNotWaitAndTicksSavesAndSamplesMay") {
  const TemporaryFolder folder;
  std::map<std::string, std::vector<bool>> on;
  for (const auto& [name, error] : watched(folder / "watched", true)) on[name].push_back(error);
  REQUIRE(on.count("D backward") == 1);
  for (const char* inside : {"loading data", "D forward", "D backward"}) {
    std::vector<bool>& all = on.at(inside);
    CAPTURE(inside);
    REQUIRE(all.size() == 10);
    CHECK_FALSE(all.front());
    CHECK(std::count(all.begin() + 1, all.end(), true) == 9);
  }
  for (const char* outside : {"tick", "saving", "samples", "comparing ranks"}) {
    CAPTURE(outside);
    REQUIRE_FALSE(on.at(outside).empty());
    CHECK(std::count(on.at(outside).begin(), on.at(outside).end(), true) == 0);
  }
  for (const auto& [name, error] : watched(folder / "not watched", false)) {
    CAPTURE(name);
    CHECK_FALSE(error);
  }
}
