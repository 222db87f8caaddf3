// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdlib>

#include "config/resolve.h"
#include "support/catch.h"
#include "support/tiny.h"
#include "train/train_request.h"
#include "util/file.h"
#include "util/text.h"

using namespace gantrain;

namespace {

Config config_of(const std::string& preset, const std::vector<std::string>& pairs = {}) {
  ConfigSources sources{.preset = preset};
  for (const std::string& pair : pairs) sources.flags.emplace_back("--set", pair);
  return resolve(sources, {});
}

// The ranks of the ways on 8 cores.
std::vector<int64_t> ranks_on_8(const Config& config, std::string& left_out) {
  std::vector<int64_t> ranks;
  for (const ProcessorUse& use : uses_of_processors(config, 8, left_out)) {
    ranks.push_back(use.ranks);
    if (ranks.size() != 2) CHECK(use.ranks * use.threads == 8);
  }
  return ranks;
}

struct Choice {
  std::string line;
  Config config;
  bool timed = false;
};

// What is chosen on two cores where the ways take so many seconds.
Choice chosen(const Config& config, const std::vector<double>& seconds) {
  ::unsetenv("OMP_NUM_THREADS");
  Config complete = config;
  choose_auto_values(complete, {.ranks = 1, .on_gpu = false});
  Choice choice{"", config};
  choice.line = choose_processors(choice.config, complete, 2, [&](const TimeUsesRequest& request) {
    choice.timed = true;
    CHECK(request.uses == std::vector<ProcessorUse>{{1, 2}, {1, 1}, {2, 1}});
    return seconds;
  });
  return choice;
}

}  // namespace

TEST_CASE("OnlyNumbersOfRanksThatChangeNoNumberAreTried") {
  std::string left_out;
  const std::vector<int64_t> one = {1, 1}, all = {1, 1, 2, 4, 8}, some = {1, 1, 2, 4};
  CHECK(ranks_on_8(config_of("dcgan-tiny"), left_out) == one);  // batch norm
  CHECK_THAT(left_out, Catch::Contains("normalised together"));
  CHECK(ranks_on_8(config_of("dcgan-tiny", {"dcgan.norm=none"}), left_out) == all);
  CHECK(left_out.empty());
  CHECK(ranks_on_8(config_of("dcgan-tiny", {"dist.sync_bn=on"}), left_out) == all);
  CHECK(ranks_on_8(config_of("r3gan-tiny", {"train.batch=24"}), left_out) == all);
  CHECK(ranks_on_8(config_of("r3gan-tiny", {"train.batch=12"}), left_out) == some);
  // Groups of four pictures.
  CHECK(ranks_on_8(config_of("stylegan2-tiny", {"train.batch=16"}), left_out) == some);
  // The official configuration's batch follows from the number of ranks.
  CHECK(ranks_on_8(config_of("stylegan2"), left_out) == one);
  CHECK_THAT(left_out, Catch::Contains("automatic values"));
}

TEST_CASE("TheFastestUseOfTheCoresIsTakenAndSaid") {
  const Config config = config_of("r3gan-tiny", {"train.kimg=100"});
  const Choice two = chosen(config, {0.09, 0.07, 0.05});
  CHECK(two.config.get("launch.nproc") == 2);
  CHECK(two.config.get("launch.threads") == 1);
  CHECK(two.config.origin("launch.nproc") == "auto (measured)");
  CHECK_THAT(two.line,
             Catch::Contains("2 ranks of 1 thread, measured: 0.050 s an iteration") &&
                 Catch::Contains("1 rank of 2 threads: 0.090 s"));
  // What is hardly faster is not worth being another configuration.
  CHECK(chosen(config, {0.05, 0.0495, 0.06}).config.get("launch.threads") == 2);
  // A way that could not be timed is not taken.
  CHECK(chosen(config, {0.09, 0.07, 0}).config.get("launch.threads") == 1);
  for (const std::vector<double>& unknown :
       {std::vector<double>{}, std::vector<double>{0, 0, 0}, std::vector<double>{2, 0, 0}}) {
    const Choice none = chosen(config, unknown);
    CHECK(none.line.empty());
    CHECK(none.config.to_json() == config.to_json());
  }
}

TEST_CASE("WhatIsDecidedOrTooShortIsNotMeasured") {
  for (const char* pair :
       {"launch.nproc=1", "launch.threads=2", "train.deterministic=on", "train.kimg=1"}) {
    CAPTURE(pair);
    const Config config = config_of("r3gan-tiny", {"train.kimg=100", pair});
    const Choice none = chosen(config, {0.09, 0.07, 0.05});
    CHECK_FALSE(none.timed);
    CHECK(none.line.empty());
    CHECK(none.config.to_json() == config.to_json());
  }
}

TEST_CASE("AResumedRunKeepsWhatItWasMeasuredToUse") {
  const TemporaryFolder folder;
  Config config = config_of("r3gan-tiny", {"train.kimg=100"});
  const Choice first = chosen(config, {0.09, 0.07, 0.05});
  write_file(folder / "config.json", first.config.to_json().dump());
  config.set("run.run_dir", Json(folder.path().string()), "flag --run-dir");
  config.set("run.resume", Json("auto"), "default");
  const Choice again = chosen(config, {0.01, 1, 1});
  CHECK_FALSE(again.timed);
  CHECK(again.config.get("launch.nproc") == 2);
  CHECK_THAT(again.line, Catch::Contains("as measured when the run began"));
  // What the user said of the run's ranks is no measurement.
  Config said = config;
  said.set("launch.nproc", Json(4), "flag --nproc");
  write_file(folder / "config.json", said.to_json().dump());
  CHECK(chosen(config, {0.09, 0.07, 0.05}).timed);
}

TEST_CASE("AMeasurementLeavesNothingBehind") {
  const TemporaryFolder folder;
  Command run(
      words_of("--preset dcgan-tiny --device cpu --resolution 16 --batch 2 --kimg 100 "
               "--metrics none --set dcgan.channels=16 --set dcgan.d_channels=8 --run-dir r"),
      {.folder = folder.path()});
  REQUIRE(eventually([&] { return fs::exists(folder / "r/errors/pids.json"); }, 100));
  run.signal(SIGTERM);
  const Outcome end = run.wait();
  CAPTURE(end.err);
  CHECK(end.code == 75);
  CHECK(end.left.empty());
}
