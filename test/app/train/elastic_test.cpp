// SPDX-License-Identifier: Apache-2.0
// Runs whose ranks come and go.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "support/catch.h"
#include "support/tiny.h"
#include "util/file.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

std::string log_of(const fs::path& run) {
  return fs::exists(run / "log.txt") ? read_file(run / "log.txt") : "";
}

// "4:3@17" for each change of the ranks that the log tells of.
std::vector<std::string> changes_of(const fs::path& run) {
  const std::regex change("ranks   (\\d+) -> (\\d+) at iteration (\\d+),");
  const std::string log = log_of(run);
  std::vector<std::string> all;
  for (std::sregex_iterator at(log.begin(), log.end(), change), end; at != end; ++at)
    all.push_back(at->str(1) + ":" + at->str(2) + "@" + at->str(3));
  return all;
}

bool changed_to(const fs::path& run, size_t count) {
  return eventually([&] { return changes_of(run).size() >= count; }, 60);
}

// The plan that the log tells of, from so many ranks on.
std::string plan_of(const fs::path& run, int64_t first) {
  std::string plan = "0:" + std::to_string(first);
  for (const std::string& change : changes_of(run)) {
    const size_t colon = change.find(':'), at = change.find('@');
    plan += "," + change.substr(at + 1) + ":" + change.substr(colon + 1, at - colon - 1);
  }
  return plan;
}

size_t count_in(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

void kill_slot(const fs::path& run, const char* slot) {
  REQUIRE(::kill(pids_of(run).at(slot).get<pid_t>(), SIGKILL) == 0);
}

// Trains by a plan, and the same by one session for each of its steps, each resumed from disk.
void check_plan(const std::string& flags, const std::vector<std::pair<int64_t, int64_t>>& steps) {
  const TemporaryFolder folder;
  std::string plan;
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    if (i > 0) plan += ",";
    plan += std::to_string(steps[i].first) + ":" + std::to_string(steps[i].second);
  }
  const auto kimg = [](int64_t iteration) {
    return std::to_string(static_cast<double>(iteration * 16) / 1e3);
  };
  const fs::path planned = train(
      folder,
      "a",
      flags + " --nproc 4 --kimg " + kimg(steps.back().first) + " --set launch.rank_plan=" + plan);
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    train(folder,
          "b",
          flags + " --set train.uneven=on --nproc " + std::to_string(steps[i].second) + " --kimg " +
              kimg(steps[i + 1].first));
  }
  CAPTURE(flags, plan, log_of(planned));
  CHECK(plan_of(planned, steps.front().second) == plan);
  CHECK(model_sha(planned) == model_sha(folder / "b"));
}

}  // namespace

TEST_CASE("APlannedChangeOfRanksIsAResumeWithoutADisk") {
  check_plan("", {{0, 3}, {3, 4}, {5, 1}, {8, 2}, {10, 0}});
}

TEST_CASE("TheTypesThatWereMeasuredStayWhereRanksChange") {
  const TemporaryFolder folder;
  const std::string flags = "--amp --set train.uneven=on --kimg ";
  train(folder, "a", flags + "0.16 --nproc 2 --set launch.rank_plan=0:2,3:1");
  // The state has what config.json says, so that the run goes on.
  const Outcome more =
      gantrain(tiny(flags + "0.2 --nproc 1 --run-dir a"), {.folder = folder.path()});
  INFO(more.err);
  CHECK(more.code == 0);
}

TEST_CASE("AdaptiveAugmentationAndPathLengthsSurviveAChangeOfRanks") {
  check_plan("--preset stylegan2-tiny --resolution 16 --set ada.interval=1",
             {{0, 4}, {2, 3}, {5, 4}, {7, 0}});
}

TEST_CASE("AGrowingNetworkSurvivesAChangeOfRanks") {
  check_plan(
      "--preset pggan-tiny --resolution 16 --set schedule.fade_kimg=0.048 "
      "--set schedule.stable_kimg=0.048",
      {{0, 2}, {4, 3}, {8, 4}, {11, 0}});
}

TEST_CASE("WhatIsTrainedAroundAKilledRankIsWhatThePlanOfItsRanksTrains") {
  for (const char* slot : {"1", "0"}) {
    CAPTURE(slot);
    const TemporaryFolder folder;
    // A variable with which the command is executed: of a fork, whose library is loaded, the fourth
    // rank would be there again at the border at which the others go on.
    Command command(tiny("--nproc 2:4 --run-dir a --kimg 500"),
                    {.environment = {{"OMP_NUM_THREADS", "1"}}, .folder = folder.path()});
    REQUIRE(command.wait_for("speed  "));
    // Rank 0 would take what it is still writing with it.
    REQUIRE(eventually([&] { return has_model(folder / "a"); }, 60));
    kill_slot(folder / "a", slot);
    REQUIRE(changed_to(folder / "a", 2));  // to three, and to four again
    command.signal(SIGTERM);
    const Outcome outcome = command.wait();
    INFO(outcome.err);
    REQUIRE(outcome.code == 75);
    CHECK(!fs::exists(folder / "a/errors"));
    CHECK(outcome.err.find("died of signal 9 (SIGKILL)") != std::string::npos);
    const std::string status = read_file(folder / "a/STATUS");
    REQUIRE_THAT(status, Catch::StartsWith("stopped "));
    for (const char* once : {"speed   ", "metrics "})
      CHECK(count_in(log_of(folder / "a"), once) <= 1);
    const double kimg = std::stod(status.substr(std::string("stopped ").size()));
    const std::string plan = plan_of(folder / "a", 4);
    CAPTURE(plan, status);
    train(folder,
          "b",
          "--nproc 4 --set launch.rank_plan=" + plan + " --kimg " + std::to_string(kimg));
    CHECK(model_sha(folder / "a") == model_sha(folder / "b"));
  }
}

TEST_CASE("AStateThatWasLostWithRank0IsSavedAgain") {
  const TemporaryFolder folder;
  const fs::path run = folder / "a";
  Command command(tiny("--nproc 1:2 --run-dir a --kimg 500"), {.folder = folder.path()});
  REQUIRE(command.wait_for("speed  "));
  write_file(run / "SAVE", "");
  const auto has_state = [&] {
    return std::ranges::any_of(files_like(run, "state-"), [](const fs::path& file) {
      return file.extension() == ".pt";  // and no temporary one
    });
  };
  REQUIRE(eventually(has_state, 60));
  // As if rank 0 were lost before it was written.
  for (const fs::path& state : files_like(run, "state-")) fs::remove(state);
  kill_slot(run, "0");
  CHECK(eventually(has_state, 60));
  CHECK(holds(log_of(run), "was lost with the rank that wrote it: saved now"));
  command.signal(SIGTERM);
  const Outcome outcome = command.wait();
  INFO(outcome.err);
  CHECK(outcome.code == 75);
}

TEST_CASE("AStopWhileARankIsReplacedLetsTheOthersSave") {
  const TemporaryFolder folder;
  // Executed, so that the process which starts the new rank has its library to load.
  Command command(tiny("--nproc 1:2 --run-dir a --kimg 500"),
                  {.environment = {{"OMP_NUM_THREADS", "1"}}, .folder = folder.path()});
  REQUIRE(command.wait_for("speed  "));
  REQUIRE(eventually([&] { return has_model(folder / "a"); }, 60));
  const std::vector<pid_t> first = command.family();
  const auto starts = [&] {
    return std::ranges::any_of(command.family(),
                               [&](pid_t pid) { return std::ranges::count(first, pid) == 0; });
  };
  const auto survivor = pids_of(folder / "a").at("0").get<pid_t>();
  kill_slot(folder / "a", "1");
  REQUIRE(eventually(starts, 60));
  REQUIRE(::kill(survivor, SIGSTOP) == 0);  // it saves after the new rank has been started
  command.signal(SIGTERM);
  eventually([&] { return !starts(); }, 8);  // in ten seconds a stopped rank would be ended
  ::kill(survivor, SIGCONT);
  const Outcome outcome = command.wait();
  INFO(outcome.err);
  CHECK(outcome.code == 75);
  CHECK(outcome.left.empty());
  CHECK_THAT(read_file(folder / "a/STATUS"),
             Catch::StartsWith("stopped ") && Catch::Contains("kimg"));
}

TEST_CASE("FewerThanTheLeastRanksEndTheRun") {
  const TemporaryFolder folder;
  Command command(tiny("--nproc 2:2 --run-dir a --kimg 500"), {.folder = folder.path()});
  REQUIRE(command.wait_for("speed  "));
  kill_slot(folder / "a", "1");
  const Outcome outcome = command.wait();
  INFO(outcome.err);
  CHECK(outcome.code == 6);
  CHECK(changes_of(folder / "a").empty());
}

TEST_CASE("TheNumbersOfARunShowItsRanks") {
  const TemporaryFolder folder;
  const fs::path run = train(folder,
                             "a",
                             "--nproc 2 --set launch.rank_plan=0:1,4:2 --kimg 0.128 --set "
                             "train.tick=0.064");
  CHECK(read_file(run / "stats.jsonl").find("\"Progress/ranks\"") != std::string::npos);
}

TEST_CASE("WhatIsNoRangeOfRanksIsRefused") {
  const TemporaryFolder folder;
  CHECK(run_in(folder, "--nproc 5:4 --preset dcgan-tiny --device cpu").code == 2);
  CHECK(run_in(folder, "--nproc a:4 --preset dcgan-tiny --device cpu").code == 2);
  CHECK(run_in(folder, "--nproc 4 --set launch.rank_plan=1:4 --preset dcgan-tiny").code == 2);
}

TEST_CASE("BatchStatisticsThatFewerRanksCannotShareAreRefused") {
  const TemporaryFolder folder;
  const Outcome outcome =
      run_in(folder, "--nproc 1:4 --preset dcgan-tiny --batch 64 --set dist.sync_bn=on --dry-run");
  CHECK(outcome.code == 2);
  CHECK(holds(outcome.err, "dist.sync_bn: 3 ranks, as this run may have, do not divide"));
  CHECK(run_in(folder, "--nproc 1:2 --preset dcgan-tiny --batch 64 --set dist.sync_bn=on --dry-run")
            .code == 0);
}

}  // namespace gantrain
