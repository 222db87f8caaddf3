// SPDX-License-Identifier: Apache-2.0
// gantrain average, from outside.
#include <filesystem>
#include <string>

#include "config/value.h"
#include "support/catch.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

const std::string kKeeping = "--set ema.posthoc=on --set ema.snapshot_every=0.032 ";

Outcome average(const TemporaryFolder& folder, const std::string& more) {
  return gantrain(words_of("average " + more),
                  {.environment = {{"GANTRAIN_CACHE_DIR", (folder / "cache").string()}},
                   .folder = folder.path()});
}

// After `average run --length 0.1,0.15 --by swd --num-images 64`.
void check_that_it_goes_on(const TemporaryFolder& folder, const Outcome& compared) {
  const std::string command = "run --length 0.1,0.15 --by swd --num-images ";
  const fs::path file = folder / "run/averages.json";
  const Json whole = Json::parse(read_file(file));
  Json stopped = whole;  // before the last model; the value of the first one is told by a mark
  stopped["best"] = "";
  stopped["models"][0]["value"] = 0.125;
  stopped["models"][1]["value"] = nullptr;
  stopped["models"][1]["measured"] = false;
  write_file(file, stopped.dump());
  const Outcome went_on = average(folder, command + "64");
  CHECK(went_on.code == 0);
  CHECK(holds(went_on.out, "length 0.1  swd 0.125  "));
  Json now = Json::parse(read_file(file));
  CHECK(now["models"][1] == whole["models"][1]);
  CHECK(now["best"] == now["models"][0]["file"]);
  // What was measured in another way, or of another model, is measured anew, ...
  now = stopped;
  now["models"][0]["sha256"] = "another";
  for (const auto& [spoiled, images] : {std::pair(stopped.dump(), "48"),
                                        std::pair(now.dump(), "64"),
                                        std::pair(std::string("broken"), "64")}) {
    write_file(file, spoiled);
    const Outcome anew = average(folder, command + images);
    CHECK(anew.code == 0);
    CHECK(!holds(anew.out, "swd 0.125"));
  }
  CHECK(Json::parse(read_file(file)) == whole);
  // ... and nothing, where all is known.
  CHECK(average(folder, command + "64").out == compared.out);
}

TEST_CASE("AverageMakesModelsThatDrawAndSaysWhichIsBest") {
  const TemporaryFolder folder;
  const fs::path run = trained(folder, "run", kKeeping);
  CHECK(files_like(run / "averages", "average-").size() > 4);
  const Outcome made = average(folder, "run --length 0.05,0.1 -o models");
  INFO(made.err);
  REQUIRE(made.code == 0);
  const std::vector<std::string> paths = split(trim(made.out), '\n');
  REQUIRE(paths.size() == 2);
  for (const std::string& path : paths)
    CHECK(succeed(folder, "generate --model " + path + " --seeds 0-3 -o grid.png").code == 0);
  const Outcome compared = average(folder, "run --length 0.1,0.15 --by swd --num-images 64");
  INFO(compared.err);
  REQUIRE(compared.code == 0);
  CHECK(holds(compared.out, "length 0.1  swd "));
  CHECK(holds(compared.out, "best    length 0.1"));
  CHECK(files_like(run, "average-").size() == 2);
  // Each model's value is its own, to the last digit.
  for (const Json& model : Json::parse(read_file(run / "averages.json")).at("models")) {
    const std::string file = model.at("file");
    const Outcome alone =
        succeed(folder, "metrics " + file + " --metrics swd --num-images 64 --json");
    CHECK(Json::parse(alone.out)["results"]["swd"] == model.at("value"));
  }
  check_that_it_goes_on(folder, compared);
  // In another folder, too, with the pictures that the run was trained on.
  const Outcome elsewhere =
      average(folder, "run --length 0.1,0.15 --by swd --num-images 64 -o elsewhere");
  INFO(elsewhere.err);
  CHECK(elsewhere.code == 0);
  const std::string value = compared.out.substr(0, compared.out.find("  run/"));
  CHECK(elsewhere.out.starts_with(value + "  elsewhere/"));
  const Outcome ends =
      average(folder, "run --length 0.1 --at 0.1,0.256 --by swd --num-images 64 -o ends");
  INFO(ends.err);
  REQUIRE(ends.code == 0);
  CHECK(holds(ends.out, "length 0.1 at 0.096 kimg  swd "));
  CHECK(holds(ends.out, "length 0.1 at 0.256 kimg  swd "));
  CHECK(holds(read_file(folder / "ends/averages.json"), "\"kimg\": 0.096"));
}

TEST_CASE("LengthsForWhichSnapshotsAreTooFewAreWarnedOf") {
  const TemporaryFolder folder;
  trained(folder, "run", "--kimg 1.024 --set ema.posthoc=on --metrics none");
  CHECK(files_like(folder / "run/averages", "average-").size() == 64);
  const std::string said = average(folder, "run --length 0.02,0.05,0.2,0.25 -o models").err;
  CHECK(holds(said, "length 0.25: the snapshots in run up to 1.024 kimg give"));
  for (const std::string length : {"0.02", "0.05", "0.2"})
    CHECK(!holds(said, "length " + length + ": "));
}

TEST_CASE("TheDiskThatSnapshotsNeedIsForetold") {
  const TemporaryFolder folder;
  const Outcome told = gantrain(tiny(kKeeping + "--dry-run=full"), {.folder = folder.path()});
  INFO(told.err);
  REQUIRE(told.code == 0);
  CHECK(holds(told.out + told.err, "snapshots of"));
}

TEST_CASE("ARunThatKeepsAveragesResumesBitForBit") {
  const TemporaryFolder folder;
  const std::string flags = kKeeping + "--set save.every=0.064 ";
  const fs::path whole = train(folder, "whole", flags);
  REQUIRE(gantrain(tiny(flags + "--run-dir parts --kimg 0.128"), {.folder = folder.path()}).code ==
          0);
  const fs::path parts = train(folder, "parts", flags);
  CHECK(model_sha(parts) == model_sha(whole));
  const auto newest = [](const fs::path& run) {
    return read_file(files_like(run / "averages", "average-").back());
  };
  CHECK(newest(parts) == newest(whole));
  // A session that was killed between a state and its snapshot.
  REQUIRE(gantrain(tiny(flags + "--run-dir killed --kimg 0.128"), {.folder = folder.path()}).code ==
          0);
  const fs::path lost = files_like(folder / "killed/averages", "average-").back();
  const std::string content = read_file(lost);
  fs::remove(lost);
  write_file(folder / "killed/STATUS", "running\n");
  train(folder, "killed", flags);
  REQUIRE(fs::exists(lost));
  CHECK(read_file(lost) == content);
}

TEST_CASE("WhatCannotBeAveragedIsRefusedInOneLine") {
  const TemporaryFolder folder;
  const fs::path run = trained(folder, "run", "");
  const auto refused = [&](const std::string& more, int code, const std::string& text) {
    CAPTURE(more);
    const Outcome outcome = average(folder, more);
    CHECK(outcome.code == code);
    CHECK(is_one_error_line(outcome.err));
    CHECK_THAT(outcome.err, Catch::Contains(text));
    CHECK(outcome.out.empty());
  };
  refused("", 2, "of which run?");
  refused("none", 3, "no such run folder");
  refused("run", 3, "no snapshot");
  refused("run --length 0", 2, "--length 0");
  refused("run --length 0.05,0.5", 2, "0.2886");
  refused("run --length=-0.1", 2, "-0.1");
  refused("run --length some", 2, "some");
  refused("run --at 0", 2, "--at 0: \"0\" is no number of kimg above 0");
  refused("run --at some", 2, "--at some");
  for (const char* flag : {"--data", "--detector", "--detector-sha256", "--lite0"})
    refused(std::string("run ") + flag + " run", 2, flag + std::string(": goes with --by METRIC"));
  refused("run --by fid", 2, "--detector");
  refused("run --by swd,msssim", 2, "one metric");
  refused("run --by strange", 2, "strange");
}

}  // namespace
}  // namespace gantrain
