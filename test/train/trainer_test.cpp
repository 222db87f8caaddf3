// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <map>

#include "core/device_waits.h"
#include "core/tensors.h"
#include "temporary_folder.h"
#include "tensor_checks.h"
#include "toy_recipe.h"
#include "train/run_folder.h"
#include "util/file.h"
#include "util/log.h"

using namespace gantrain;
namespace fs = std::filesystem;

namespace {

Exit run(const fs::path& folder,
         const std::map<std::string, Json>& changes = {},
         int64_t stop_at = -1) {
  set_log({Level::kError, Level::kInfo, {}, ""});
  std::map<std::string, Json> all = changes;
  all["run.run_dir"] = folder.string();
  const Config config = toy_config(all);
  TrainSetup setup{
      config, {}, BackendKind::kGloo, at::kCPU, toy_row(), "test", "", {}, {}, nullptr};
  int64_t seen = 0;
  setup.callbacks.progress = [&](int64_t images, int64_t) { seen = images; };
  setup.callbacks.stop_signal = [&] { return stop_at >= 0 && seen >= stop_at ? SIGTERM : 0; };
  return train(setup);
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
