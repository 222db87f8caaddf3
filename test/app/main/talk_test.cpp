// SPDX-License-Identifier: Apache-2.0
// What the thin program says without training: help, presets, the resolved configuration.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "config/value.h"
#include "support/catch.h"
#include "support/tiny.h"
#include "util/file.h"

namespace gantrain {
namespace {

Json dry_run(const Words& arguments, const CommandOptions& options = {}) {
  Words all = arguments;
  all.insert(all.end(), {"--dry-run", "--json"});
  const Outcome outcome = gantrain(all, options);
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  return Json::parse(outcome.out);
}

Json value(const Json& resolved, const std::string& key) {
  return resolved.at("values").at(key).at("value");
}

std::string origin(const Json& resolved, const std::string& key) {
  return resolved.at("values").at(key).at("origin");
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

// What a shell command prints on standard output.
std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  REQUIRE(pipe != nullptr);
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) text.push_back(static_cast<char>(c));
  pclose(pipe);
  return text;
}

TEST_CASE("ReadingCommandsAnswerOnStandardOutputAlone") {
  for (const std::string text : {"--help",
                                 "--version",
                                 "-V",
                                 "train --help",
                                 "generate --help",
                                 "interpolate --help",
                                 "help interpolate",
                                 "presets list",
                                 "presets show dcgan",
                                 "presets diff dcgan dcgan-tiny",
                                 "help flags",
                                 "help keys",
                                 "help exit",
                                 "help start",
                                 "help resume",
                                 "--preset dcgan-tiny --dry-run"}) {
    CAPTURE(text);
    const Outcome outcome = gantrain(words_of(text));
    CHECK(outcome.code == 0);
    CHECK(!outcome.out.empty());
    CHECK(outcome.err.empty());
    CHECK(outcome.seconds < 60);
  }
}

// Runs a shell command with this program as $0; returns its exit code and standard error.
std::pair<int, std::string> in_shell(const std::string& command, const TemporaryFolder& folder) {
  const std::string program = gantrain_program().string(), errors = (folder / "errors").string();
  const int status = std::system(
      ("bash -c " + shell_quote(command) + " " + shell_quote(program) + " 2>" + shell_quote(errors))
          .c_str());
  return {WEXITSTATUS(status), read_file(errors)};
}

TEST_CASE("AStandardOutputThatTakesNothingIsAnError") {
  const TemporaryFolder folder;
  for (const std::string words : {"help", "help keys", "help start", "presets list"}) {
    for (const auto& [where, why] :
         Pairs{{">/dev/full", "No space left on device"}, {">&-", "Bad file descriptor"}}) {
      const auto [code, said] = in_shell("\"$0\" " + words + " " + where, folder);
      CAPTURE(words, where, said);
      CHECK(code == 8);
      CHECK_THAT(said, Catch::StartsWith("error   standard output: ") && Catch::Contains(why));
    }
  }
}

TEST_CASE("OutputOfALaunchedProgramThatIsLostIsAnError") {
  const TemporaryFolder folder;
  for (const std::string ranks : {"1", "2"}) {
    const std::string launch = "\"$0\" launch --nproc " + ranks + " -- sh -c ";
    const auto [code, said] = in_shell(launch + "'seq 20000' >/dev/full", folder);
    CAPTURE(ranks, said);
    CHECK(code == 8);
    CHECK_THAT(said, Catch::Contains("error   standard output: No space left on device"));
    CHECK(in_shell(launch + "'seq 2000' | head -n 1 >/dev/null; exit ${PIPESTATUS[0]}", folder)
              .first == 0);
    CHECK(in_shell(launch + "'seq 9; exit 3' >/dev/full", folder).first == 3);
  }
  const std::string logs = (folder / "logs").string();
  const auto [code, said] = in_shell("ulimit -f 8; \"$0\" launch --run-id a --log-dir " + logs +
                                         " -- sh -c 'seq 20000; echo last words >&2' >/dev/null",
                                     folder);
  CHECK(code == 8);
  CHECK_THAT(said, Catch::Contains("error   " + logs + "/a/0/rank0.out: File too large"));
}

TEST_CASE("AFlagThatGoesWithAnotherIsRefusedWithoutIt") {
  const TemporaryFolder folder;
  for (const auto& [words, named] :
       Pairs{{"--preset dcgan-tiny --json", "--dry-run"}, {"--smoke --json", "--dry-run"}}) {
    CAPTURE(words);
    const Outcome outcome = gantrain(words_of(words), {.folder = folder.path()});
    CHECK(outcome.code == 2);
    CHECK(is_one_error_line(outcome.err));
    CHECK_THAT(outcome.err, Catch::Contains(named));
  }
}

TEST_CASE("PresetsListAsJsonNamesEachPreset") {
  const Outcome outcome = gantrain(words_of("presets list --json"));
  REQUIRE(outcome.code == 0);
  Words names;
  for (const Json& preset : Json::parse(outcome.out)) names.push_back(preset.at("name"));
  for (const std::string name : {"dcgan", "dcgan-tiny", "lsgan", "wgan-gp"}) {
    CHECK(std::count(names.begin(), names.end(), name) == 1);
  }
}

TEST_CASE("TheThinProgramDoesNotNeedLibTorch") {
  const std::string needed = output_of("ldd '" + gantrain_program().string() + "'");
  if (needed.find("libc.so") == std::string::npos) {
    WARN("skipped: ldd is not there, or does not read this program");
    return;
  }
  INFO(needed);
  CHECK(needed.find("not found") == std::string::npos);
  for (const std::string library : {"libtorch", "libc10", "libcuda", "libgantrain"}) {
    CHECK(needed.find(library) == std::string::npos);
  }
}

TEST_CASE("AFlagBeatsTheEnvironmentBeatsTheFileBeatsThePreset") {
  const TemporaryFolder folder;
  write_file(folder / "own.json", R"({"train": {"batch": 24, "kimg": 3}, "dcgan.channels": 40})");
  const CommandOptions bare{.folder = folder.path()};
  const CommandOptions with{.environment = {{"GANTRAIN_TRAIN__BATCH", "48"}},
                            .folder = folder.path()};
  const Words file = words_of("--preset dcgan-tiny --config own.json");

  const Json preset = dry_run(words_of("--preset dcgan-tiny"), bare);
  CHECK(value(preset, "train.batch") == 16);
  CHECK(origin(preset, "train.batch") == "preset dcgan-tiny");
  CHECK(origin(preset, "dcgan.latent") == "preset dcgan");
  CHECK(origin(preset, "train.tick") == "default");

  const Json from_file = dry_run(file, bare);
  CHECK(value(from_file, "train.batch") == 24);
  CHECK(origin(from_file, "train.batch").find("own.json") != std::string::npos);
  CHECK(value(from_file, "dcgan.channels") == 40);

  const Json from_environment = dry_run(file, with);
  CHECK(value(from_environment, "train.batch") == 48);
  CHECK(origin(from_environment, "train.batch").find("GANTRAIN_TRAIN__BATCH") != std::string::npos);
  CHECK(value(from_environment, "train.kimg") == 3);

  Words all = file;
  all.insert(all.end(), {"--batch", "32"});
  const Json from_flag = dry_run(all, with);
  CHECK(value(from_flag, "train.batch") == 32);
  CHECK(origin(from_flag, "train.batch") == "flag --batch");
}

TEST_CASE("AConfigurationCanComeFromStandardInput") {
  const std::string said =
      output_of("echo '{\"train\": {\"batch\": 24}}' | '" + gantrain_program().string() +
                "' --preset dcgan-tiny --device cpu --dry-run --json --config -");
  const Json run = Json::parse(said);
  CHECK(value(run, "train.batch") == 24);
  CHECK(origin(run, "train.batch") == "file -");
}

TEST_CASE("TheBatchLineSaysWhatEachNetworkAccumulates") {
  const auto line = [](const std::string& flags) {
    const Outcome outcome =
        gantrain(words_of("--preset dcgan-tiny --device cpu --dry-run " + flags));
    REQUIRE(outcome.code == 0);
    const size_t at = outcome.out.find("\nbatch ") + 1;
    return outcome.out.substr(at, outcome.out.find('\n', at) - at);
  };
  CHECK(line("--accumulate 4") == "batch 16 = 1 rank x 4 accumulated x 4");
  CHECK(line("--nproc 2 --set D.accumulate=4") == "batch 16 = 2 ranks x 8; D: 4 accumulated x 2");
  CHECK(line("--set D.accumulate=1") == "batch 16 = 1 rank x 16");
  const Outcome wrong =
      gantrain(words_of("--preset dcgan-tiny --device cpu --dry-run --set D.accumulate=5"));
  CHECK(wrong.code == 2);
  CHECK_THAT(wrong.err, Catch::Contains("D.accumulate = 5 does not divide"));
}

TEST_CASE("OfFlagsAndSetTheLaterOneWins") {
  const auto batch = [&](const std::string& flags) {
    return value(dry_run(words_of("--preset dcgan-tiny " + flags)), "train.batch");
  };
  CHECK(batch("--batch 8 --set train.batch=24") == 24);
  CHECK(batch("--set train.batch=24 --batch 8") == 8);
  CHECK(batch("--batch 4 --set train.batch=24 train.seed=3 --batch 8") == 8);
  CHECK(batch("--set train.batch=8 --cfg-options train.batch=24") == 24);
}

TEST_CASE("APresetKnowsWhoNamedIt") {
  const TemporaryFolder folder;
  write_file(folder / "own.json", R"({"preset": "lsgan"})");
  const CommandOptions bare{.folder = folder.path()};
  const CommandOptions with{.environment = {{"GANTRAIN_PRESET", "wgan-gp"}},
                            .folder = folder.path()};
  const auto named = [](const Json& run) {
    return value(run, "preset").get<std::string>() + ", " + origin(run, "preset");
  };
  CHECK(named(dry_run({}, bare)) == "dcgan, default");
  CHECK(named(dry_run(words_of("--config own.json"), bare)) == "lsgan, file own.json");
  CHECK(named(dry_run(words_of("--config own.json"), with)) ==
        "wgan-gp, environment GANTRAIN_PRESET");
  const CommandOptions unset{.environment = {{"GANTRAIN_PRESET", ""}}, .folder = folder.path()};
  CHECK(named(dry_run(words_of("--config own.json"), unset)) == "lsgan, file own.json");
  CHECK(named(dry_run(words_of("--config own.json --set preset=dcgan-tiny"), with)) ==
        "dcgan-tiny, flag --set");
  CHECK(named(dry_run(words_of("--config own.json --preset dcgan"), with)) ==
        "dcgan, flag --preset");
}

TEST_CASE("WhatReadingCommandsSayIsThereAsJsonToo") {
  const Json changes = Json::parse(gantrain(words_of("presets diff dcgan lsgan --json")).out);
  CHECK(changes.at(0) == Json{{"key", "preset"}, {"before", "dcgan"}, {"after", "lsgan"}});
  const Json keys = Json::parse(gantrain(words_of("help keys --json")).out);
  CHECK(std::count_if(keys.begin(), keys.end(), [](const Json& row) {
          return row.at("key") == "train.batch";
        }) == 1);
  CHECK(Json::parse(gantrain(words_of("help flags --json")).out).size() > 30);
  CHECK(Json::parse(gantrain(words_of("help exit --json")).out).at(0).at("meaning") == "done");
  CHECK(Json::parse(gantrain(words_of("help amp --json")).out).contains("text"));
}

TEST_CASE("AliasesOfOtherLaunchersAreUnderstood") {
  const TemporaryFolder folder;
  write_file(folder / "own.json", R"({"train": {"batch": 24}})");
  const CommandOptions here{.folder = folder.path()};
  for (const std::string nproc : {"--nproc 2", "--nproc_per_node 2", "--nproc-per-node=2"}) {
    const Json resolved = dry_run(
        words_of("--preset dcgan-tiny --config-file own.json --cfg-options train.seed=7 " + nproc),
        here);
    CAPTURE(nproc);
    CHECK(value(resolved, "launch.nproc") == 2);
    CHECK(value(resolved, "train.seed") == 7);
    CHECK(value(resolved, "train.batch") == 24);
    CHECK(resolved.at("schedule").at("micro_batch") == 12);
  }
}

TEST_CASE("KimgIsABareNumberOrCountsPictures") {
  const auto kimg = [](const std::string& text) {
    return value(dry_run(words_of("--preset dcgan-tiny --kimg " + text)), "train.kimg");
  };
  CHECK(kimg("25M") == 25000);
  CHECK(kimg("200k") == 200);
  CHECK(kimg("7") == 7);
  CHECK(kimg("0.5") == 0.5);
}

TEST_CASE("RatesScaleWithTheBatchOnlyWhenAsked") {
  const auto rate = [](const std::string& more) {
    return value(dry_run(words_of("--preset dcgan-tiny --batch 64 " + more)), "G.adam.lr")
        .get<double>();
  };
  CHECK(rate("") == Approx(2e-4));
  CHECK(rate("--lr-scale linear") == Approx(8e-4));
  CHECK(rate("--lr-scale sqrt") == Approx(4e-4));
}

TEST_CASE("AHyperparameterMayBeARampWhichTheDryRunTells") {
  const std::string ramp = R"({"from":0.0004,"to":"1e-4","kimg":"200M","shape":"cosine"})";
  const Json canonical =
      Json::parse(R"({"from": 0.0004, "to": 0.0001, "kimg": 200000, "shape": "cosine"})");
  const Words set = words_of("--preset dcgan-tiny --set G.adam.lr=" + ramp);
  const Json resolved = dry_run(set);
  CHECK(value(resolved, "G.adam.lr") == canonical);
  CHECK(value(resolved, "D.adam.lr") == 2e-4);

  Words told = set;
  told.insert(told.end(), {"--set", "ema.half_life={\"from\":0,\"to\":\"5M\",\"kimg\":20}"});
  told.push_back("--dry-run");
  const Outcome text = gantrain(told);
  CHECK(text.code == 0);
  CHECK_THAT(text.out,
             Catch::Contains("\nG.adam.lr 0.0004 to 0.0001 over 200000 kimg, cosine\n") &&
                 Catch::Contains("\nema.half_life 0 to 5000 over 20 kimg, linear\n"));

  const TemporaryFolder folder;
  write_file(folder.path() / "ramps.json", R"({"G": {"adam": {"lr": )" + ramp + "}}}");
  const Words from_file =
      words_of("--preset dcgan-tiny --config " + (folder.path() / "ramps.json").string());
  CHECK(value(dry_run(from_file), "G.adam.lr") == canonical);

  Words scaled = words_of("--preset dcgan-tiny --batch 64 --lr-scale linear --config " +
                          (folder.path() / "ramps.json").string());
  CHECK(value(dry_run(scaled), "G.adam.lr") == canonical);  // given, so not scaled
}

TEST_CASE("ABatchThatRanksDoNotDivideIsRefusedWithTheNearestOnes") {
  const Outcome outcome =
      gantrain(words_of("--preset dcgan-tiny --nproc 3 --device cpu --dry-run"));
  CHECK(outcome.code == 2);
  CHECK(is_one_error_line(outcome.err));
  CHECK(outcome.err.find("15") != std::string::npos);
  CHECK(outcome.err.find("18") != std::string::npos);
}

TEST_CASE("TheTwoTimeScaleSetUpIsReachedBySetAlone") {
  const std::string sets =
      "--set G.adam.lr=1e-4 --set D.adam.lr=4e-4 --set G.adam.beta1=0 --set D.adam.beta1=0 --set "
      "G.adam.beta2=.999 "
      "--set D.adam.beta2=.999 --set G.adam.eps=1e-6 --set D.adam.eps=1e-6 --set G.accumulate=8 "
      "--set D.accumulate=8";
  const Json resolved = dry_run(tiny(sets));
  CHECK(value(resolved, "G.adam.lr") == 1e-4);
  CHECK(value(resolved, "D.adam.lr") == 4e-4);
  for (const std::string player : {"G", "D"}) {
    CHECK(value(resolved, player + ".adam.beta1") == 0);
    CHECK(value(resolved, player + ".adam.beta2") == .999);
    CHECK(value(resolved, player + ".adam.eps") == 1e-6);
    CHECK(value(resolved, player + ".accumulate") == 8);
  }
  const TemporaryFolder folder;
  train(folder, "run", sets + " --kimg 0.1");
}

}  // namespace
}  // namespace gantrain
