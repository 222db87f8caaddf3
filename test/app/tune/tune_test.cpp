// SPDX-License-Identifier: Apache-2.0
// Races of tiny trainings: who wins, what is left behind, and that a race goes on where it stood.
#include <signal.h>

#include <filesystem>

#include "config/value.h"
#include "support/catch.h"
#include "support/tiny.h"
#include "util/file.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

// Three rates, of which the last one destroys the networks.
const std::string kRace =
    "tune --try G.lr=0.002,0.0002,30 -o race -- --preset dcgan-tiny --device cpu --nproc 1 "
    "--threads 1 --resolution 16 --batch 16 --kimg 0.64 --metrics none --set metrics.images=64";

Json tune_json(const TemporaryFolder& folder) {
  return Json::parse(read_file(folder / "race/tune.json"));
}

// What was decided, without the command that asked for it.
Json decided(const TemporaryFolder& folder) {
  Json json = tune_json(folder);
  json.erase("command");
  return json;
}

TEST_CASE("ARaceFindsAWinnerAndTellsWhyTheOthersLost") {
  const TemporaryFolder folder;
  const Outcome outcome = succeed(folder, kRace);
  const Json json = tune_json(folder);
  const std::string winner = json.at("winner");
  CHECK(outcome.out == "race/" + winner + "\n");
  CHECK(holds(text_in(folder / "race" / winner / "STATUS"), "done 0.64 kimg"));
  CHECK(json.at("rungs").size() == 3);
  int won = 0;
  for (const Json& one : json.at("candidates")) {
    CAPTURE(one.dump());
    CHECK(!one.at("why").get<std::string>().empty());
    if (one.at("place") == "won") {
      ++won;
      CHECK(one.at("name") == winner);
      CHECK(one.at("values").size() == 3);
    }
    CHECK(fs::exists(folder / "race" / one.at("name").get<std::string>() / "config.json"));
  }
  CHECK(won == 1);
  const std::string page = read_file(folder / "race/compare.html");
  CHECK(holds(page, winner));
  CHECK(holds(page, "G.adam.lr"));
  CHECK(holds(outcome.err, "given up G.adam.lr"));
  CHECK(holds(outcome.err, "generate --model race/" + winner));
  // The winner is what one run with its values is.
  const std::string value = text_of(Json::parse(read_file(folder / "race" / winner / "config.json"))
                                        .at("values")
                                        .at("G.adam.lr")
                                        .at("value"));
  succeed(
      folder,
      "--preset dcgan-tiny --device cpu --nproc 1 --threads 1 --resolution 16 --batch 16 --kimg "
      "0.64 --metrics none --run-dir alone --set G.lr=" +
          value);
  CHECK(model_sha(folder / "alone") == model_sha(folder / "race" / winner));
  // The same command again has nothing to do; another race is not mixed with it.
  const Json before = decided(folder);
  CHECK(succeed(folder, kRace).out == outcome.out);
  CHECK(decided(folder) == before);
  const Outcome other = run_in(folder, kRace + " --mirror");
  CHECK(other.code == 2);
  CHECK_THAT(other.err, Catch::Contains("holds another race"));
}

TEST_CASE("ARaceThatWasKilledGoesOnAndDecidesTheSame") {
  const TemporaryFolder folder, calm;
  succeed(calm, kRace);
  {
    Command command(words_of(kRace), {.folder = folder.path()});
    REQUIRE(command.wait_for("G.adam.lr 0.0002 in "));  // the second one has begun
    command.signal(SIGKILL);
    const Outcome killed = command.wait();
    CHECK(killed.code == 128 + SIGKILL);
    CHECK(killed.left.empty());
  }
  CHECK(tune_json(folder).at("winner") == "");
  succeed(folder, kRace);
  CHECK(decided(folder) == decided(calm));
}

TEST_CASE("ARaceThatWasAskedToStopSavesAndGoesOn") {
  const TemporaryFolder folder;
  for (const auto& [signal, code] :
       std::vector<std::pair<int, int>>{{SIGINT, 130}, {SIGTERM, 75}}) {
    CAPTURE(signal);
    Command command(words_of(kRace + " --set train.tick=0.016"), {.folder = folder.path()});
    REQUIRE(command.wait_for("speed  "));
    command.signal(signal);
    const Outcome outcome = command.wait();
    INFO(outcome.err);
    CHECK(outcome.code == code);
    CHECK(outcome.left.empty());
    CHECK_THAT(outcome.err, Catch::Contains("next ") && Catch::Contains(" tune --try "));
  }
  succeed(folder, kRace + " --set train.tick=0.016");
  CHECK(tune_json(folder).at("winner") != "");
}

TEST_CASE("ADryRunShowsThePlanAndTrainsNothing") {
  const TemporaryFolder folder;
  const Outcome outcome = succeed(
      folder,
      "tune --try gamma=auto*{0.25,1,4} --dry-run -- --preset stylegan2 --resolution 64 --kimg 100 "
      "--device cpu --batch 32 --set gamma=auto");
  CHECK_THAT(outcome.out,
             Catch::Contains("stylegan2.gamma 0.0064\n") &&
                 Catch::Contains("stylegan2.gamma 0.0256\n") &&
                 Catch::Contains("stylegan2.gamma 0.1024\n") && Catch::Contains("3 candidates") &&
                 Catch::Contains("130 kimg together, 30 % more than one run's 100"));
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("WhatCannotRaceIsRefusedBeforeAnythingIsTrained") {
  const std::string flags = " -- --preset dcgan-tiny --device cpu";
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"tune" + flags, "what is to be tried?"},
      {"tune --try G.lr=1e-4" + flags, "nothing to choose from"},
      {"tune --try G.lx=1,2" + flags, "G.lx"},
      {"tune --try gama=1,2" + flags, "gama"},
      {"tune --try G.lr=0.1,fast" + flags, "G.adam.lr = fast"},
      {"tune --try train.kimg=1,2" + flags, "the same for all candidates"},
      {"tune --try data.resolution=16,32" + flags, "the same for all candidates"},
      {"tune --try G.lr=1e-4,2e-4 --by swdd" + flags, "did you mean swd"},
      {"tune --try G.lr=1e-4,2e-4 --by fid" + flags, "--detector"},
      {"tune --try G.lr=1e-4,2e-4 --bye swd" + flags, "unknown flag --bye"},
      {"tune --try G.lr=1e-4,2e-4" + flags + " --run-dir here", "--run-dir"},
      {"tune --try G.lr=1e-4,2e-4" + flags + " --dry-run", "leave out --dry-run"},
      {"tune --try train.batch=16,0" + flags, "train.batch = 0"}};
  for (const auto& [command, part] : wrong) {
    const TemporaryFolder folder;
    const Outcome outcome = run_in(folder, command);
    CAPTURE(command, outcome.err);
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, Catch::Contains(part));
    CHECK(fs::is_empty(folder.path()));
  }
}

TEST_CASE("ASecondProcessOfTheSameRaceIsRefusedAndHarmsNothing") {
  const TemporaryFolder folder;
  Command first(words_of(kRace), {.folder = folder.path()});
  REQUIRE(first.wait_for("race    G.adam.lr"));
  const Outcome second = run_in(folder, kRace);
  CHECK(second.code == 2);
  CHECK_THAT(second.err, Catch::Contains("race: another race is at work there"));
  CHECK(first.wait().code == 0);
  for (const Json& one : tune_json(folder).at("candidates"))
    CHECK(!holds(one.at("why").get<std::string>(), "exit code 2"));
}

TEST_CASE("ARaceWhoseCandidatesWereAllRefusedBeginsAnew") {
  const TemporaryFolder folder;
  write_file(folder / "bad.pth", "no weights");
  CHECK(run_in(folder, kRace + " --metrics fd_lite0 --lite0 bad.pth").code == 3);
  for (const Json& one : tune_json(folder).at("candidates")) CHECK(one.at("place") == "failed");
  succeed(folder, kRace);  // other flags
  CHECK(tune_json(folder).at("winner") != "");
}

TEST_CASE("NoCandidateLeftEndsWithTheCauseOfEach") {
  const TemporaryFolder folder;
  const std::string command =
      "tune --try G.sgd.lr=1e3,9e2 -o race -- --preset dcgan-tiny --device cpu --nproc 1 "
      "--threads 1 --resolution 16 --batch 16 --kimg 4 --metrics none --set metrics.images=64 "
      "--set train.on_nonfinite=stop --set D.optimizer=sgd --set D.sgd.lr=1000 "
      "--set G.optimizer=sgd --set dcgan.norm=none --set dcgan.loss=lsgan";
  // The same command tries them again: what they failed of may have passed.
  for (const bool again : {false, true}) {
    const Outcome outcome = run_in(folder, command);
    INFO(outcome.err);
    CHECK(outcome.code == 5);
    CHECK_THAT(outcome.err, Catch::Contains("no candidate is left: G.sgd.lr 1000: "));
    CHECK((outcome.err.find("those that failed are tried again") != std::string::npos) == again);
  }
  for (const Json& one : tune_json(folder).at("candidates")) CHECK(one.at("place") == "failed");
}

}  // namespace
}  // namespace gantrain
