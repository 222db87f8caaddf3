// SPDX-License-Identifier: Apache-2.0
// What a run says while it works, in which colours, and which of its files it keeps.
#include <algorithm>

#include "command/flags.h"
#include "config/value.h"
#include "support/catch.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

// Five saves, one an iteration.
const std::string kSaves = "--kimg 0.08 --save-every 0.016 --set train.tick=0.016 ";

Words names_like(const fs::path& run, const std::string& prefix) {
  Words names;
  for (const fs::path& file : files_like(run, prefix)) names.push_back(file.filename());
  return names;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_CASE("EverySaveIsSaidOnceWhenItIsOnTheDisk") {
  const TemporaryFolder folder;
  const Outcome outcome =
      gantrain(tiny("--run-dir run --nproc 2 --keep-last 10 " + kSaves), {.folder = folder.path()});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  const Words states = names_like(folder / "run", "state-");
  CHECK(states.size() == 5);
  CHECK(count_of(outcome.err, "saved   state-") == states.size());
  const std::string log = read_file(folder / "run/log.txt");
  for (const std::string& state : states) {
    CHECK(count_of(outcome.err, "saved   " + state + "\n") == 1);
    CHECK(count_of(log, "saved   " + state + "\n") == 1);
  }
}

TEST_CASE("ALogHasNoUnknownEta") {
  const TemporaryFolder folder;
  const fs::path run = trained(folder, "run", kSaves);
  CHECK(read_file(run / "log.txt").find("eta ?") == std::string::npos);
}

TEST_CASE("ModelsAreKeptAllOrAsManyAsWereAskedFor") {
  const TemporaryFolder folder;
  const Words all = names_like(train(folder, "all", kSaves), "model-");
  REQUIRE(all.size() == 6);  // the first one, too
  CHECK(names_like(train(folder, "two", kSaves + "--keep-models 2"), "model-") ==
        Words(all.end() - 2, all.end()));
  const Words best =
      names_like(train(folder,
                       "best",
                       kSaves + "--keep-models best --keep-best swd --metrics-every 0.016 --set "
                                "metrics.images=16"),
                 "model-");
  CHECK(best == Words{all.back(), "model-best.safetensors"});
  // A resume may keep another number, and draws from what is left.
  const fs::path run = train(folder, "two", kSaves + "--keep-models 1 --kimg 0.112");
  CHECK(names_like(run, "model-").size() == 1);
  const Outcome drawn =
      gantrain(words_of("generate --model two --seeds 0-3 -o grid.png"), {.folder = folder.path()});
  CHECK(drawn.code == 0);
}

TEST_CASE("WhatIsNoNumberOfModelsIsRefusedBeforeAnythingIsWritten") {
  const TemporaryFolder folder;
  for (const auto& [value, part] : std::map<std::string, std::string>{
           {"0", "at least 1"}, {"some", "all, best"}, {"best", "--keep-best"}}) {
    const Outcome outcome =
        gantrain(tiny("--run-dir run --keep-models " + value), {.folder = folder.path()});
    CAPTURE(value);
    CHECK(outcome.code == 2);
    CHECK(is_one_error_line(outcome.err));
    CHECK_THAT(outcome.err, Catch::Contains("save.keep_models") && Catch::Contains(part));
    CHECK(!fs::exists(folder / "run"));
  }
}

TEST_CASE("ColorsAreForTerminalsUnlessAlwaysIsSaid") {
  const TemporaryFolder folder;
  const CommandOptions here{.folder = folder.path()};
  const Outcome plain = gantrain(words_of("--preset nothing"), here);
  CHECK(plain.err.find('\033') == std::string::npos);
  const Outcome always = gantrain(words_of("--preset nothing --color always"), here);
  CHECK(starts_with(always.err, "\033[31merror\033[0m   "));
  CHECK(gantrain(words_of("presets show nothing --color=always"), here).err.find('\033') !=
        std::string::npos);
  const CommandOptions no{.environment = {{"NO_COLOR", "1"}}, .folder = folder.path()};
  CHECK(gantrain(words_of("--preset nothing --color auto"), no).err.find('\033') ==
        std::string::npos);
  CHECK(gantrain(words_of("--preset nothing --color always --no-color"), here).err.find('\033') ==
        std::string::npos);
  const Outcome odd = gantrain(words_of("--preset dcgan-tiny --color red"), here);
  CHECK(odd.code == 2);
  CHECK_THAT(odd.err, Catch::Contains("--color red: allowed: auto, always, never"));
  CHECK_THAT(gantrain(words_of("doctor --color"), here).err,
             Catch::Contains("--color needs a value"));
}

TEST_CASE("RanksHaveColorsTooButNoFileHasAny") {
  const TemporaryFolder folder;
  const Outcome outcome = gantrain(tiny("--run-dir run --kimg 0.032 --nproc 2 --color always"),
                                   {.folder = folder.path()});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.err,
             Catch::Contains("\033[32mdone\033[0m ") && Catch::Contains("\033[36mnext\033[0m "));
  CHECK(outcome.out.find('\033') == std::string::npos);
  for (const char* file : {"log.txt", "STATUS", "command.txt", "config.json"}) {
    CAPTURE(file);
    CHECK(read_file(folder / "run" / file).find('\033') == std::string::npos);
  }
}

TEST_CASE("EveryCommandKnowsColor") {
  for (const char* verb : {"train", "generate", "data inspect", "bench step"}) {
    CAPTURE(verb);
    CHECK_THAT(gantrain(words_of(verb + std::string(" --help"))).out, Catch::Contains("--color"));
  }
}

TEST_CASE("TheFullDryRunForetellsTimeMemoryAndFiles") {
  const TemporaryFolder folder;
  const std::string flags =
      "--preset stylegan2-tiny --device cpu --threads 1 --nproc 2 --batch 16 --accumulate 2 "
      "--kimg 100 --save-every 10 --keep-last 2 --keep-models 3 --dry-run=full";
  const Outcome json = gantrain(words_of(flags + " --json"), {.folder = folder.path()});
  INFO(json.err);
  REQUIRE(json.code == 0);
  const Json all = Json::parse(json.out);
  const Json& disk = all.at("disk");
  CHECK(disk.at("state_bytes") > disk.at("model_bytes"));
  CHECK(disk.at("bytes_at_end") ==
        2 * disk.at("state_bytes").get<int64_t>() + 3 * disk.at("model_bytes").get<int64_t>());
  const Json& memory = all.at("memory");
  CHECK(memory.at("working_bytes") > 0);
  // The descriptors of swd alone: two sets of 1024 pictures, 128 patches each, 3 x 7 x 7 floats.
  CHECK(memory.at("metrics_bytes") > int64_t{2} * 1024 * 128 * 3 * 7 * 7 * 4);
  CHECK(memory.at("rank_bytes") ==
        memory.at("lasting_bytes").get<int64_t>() +
            std::max(memory.at("working_bytes"), memory.at("metrics_bytes")).get<int64_t>());
  CHECK(memory.at("all_bytes") == 2 * memory.at("rank_bytes").get<int64_t>());
  const Json& range = all.at("seconds_range");
  CHECK(range.at(0) <= all.at("seconds"));
  CHECK(all.at("seconds") <= range.at(1));
  CHECK(range.at(0) > 0);
  const Outcome text = gantrain(words_of(flags), {.folder = folder.path()});
  CHECK_THAT(text.out,
             Catch::Contains("batch 16 = 2 ranks x 2 accumulated x 4\n") &&
                 Catch::Contains("2 states of ") && Catch::Contains("3 models of ") &&
                 Catch::Contains(" MB of all 2 ranks"));
}

TEST_CASE("HelpNamesTheLabelsThatAreNone") {
  CHECK_THAT(gantrain(words_of("help keys")).out, Catch::Contains("none: no labels"));
}

TEST_CASE("MetricsOfOtherProgramsHaveNamesHere") {
  CHECK(own_metrics("fid50k_full, kid50k_full") == "fid,kid");
  CHECK(own_metrics("swd,fid") == "swd,fid");
  CHECK(own_metrics("") == "");
}

}  // namespace
}  // namespace gantrain
