// SPDX-License-Identifier: Apache-2.0
// bench modes.
#include "config/value.h"
#include "image/image.h"
#include "support/catch.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

// Two classes of bright and dark pictures, eight of each.
fs::path two_classes(const TemporaryFolder& folder) {
  for (const std::string name : {"bright", "dark"}) {
    fs::create_directories(folder / "data" / name);
    for (int i = 0; i < 8; ++i) {
      const uint8_t grey = static_cast<uint8_t>((name == "bright" ? 200 : 10) + i);
      write_file(folder / "data" / name / fmt::format("{}.png", i),
                 encode_png({32, 32, 1, std::vector<uint8_t>(32 * 32, grey)}));
    }
  }
  return folder / "data";
}

const std::string kFew = " --stacked 32 --samples 200 --epochs 40 --threads 1 --seed 3";

TEST_CASE("PresetsAreTrainedAndTheirModesCounted") {
  const TemporaryFolder folder;
  const std::string command =
      "bench modes --json -o out --data " + two_classes(folder).string() + kFew +
      " --presets dcgan-tiny --kimg 0.016 --set train.batch=16 --set dcgan.channels=8 "
      "--set dcgan.d_channels=8 --set samples.rows=1";
  const Outcome outcome = gantrain(words_of(command), {.folder = folder.path()});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.out, Catch::Contains("8 modes of ") && Catch::Contains("dcgan-tiny"));
  const Json result = last_line(outcome);
  CHECK(result.at("classes") == 2);
  CHECK(result.at("accuracy") == 1);
  CHECK(result.at("reals").at("modes") == 8);
  CHECK(result.at("reals").at("kl").get<double>() < 0.1);
  REQUIRE(result.at("models").size() == 1);
  const Json& model = result.at("models").at(0);
  CHECK(model.at("name") == "dcgan-tiny");
  CHECK(model.at("images") == 16);
  CHECK(model.at("modes") >= 1);
  CHECK(Json::parse(read_file(folder / "out/modes.json")) == result);

  // The same command has nothing left to train, and counts the same.
  const std::string status = read_file(folder / "out/dcgan-tiny/stats.jsonl");
  CHECK(last_line(gantrain(words_of(command), {.folder = folder.path()})) == result);
  CHECK(read_file(folder / "out/dcgan-tiny/stats.jsonl") == status);

  // A longer one trains on, and has both models.
  std::string longer = command;
  longer.replace(longer.find("0.016"), 5, "0.048");
  const Outcome more = gantrain(words_of(longer), {.folder = folder.path()});
  INFO(more.err);
  CHECK_THAT(more.err, Catch::Contains("resume  at 0.016 kimg"));
  REQUIRE(more.code == 0);
  const Json both = last_line(more).at("models");
  REQUIRE(both.size() == 2);
  CHECK(both.at(0) == model);
  CHECK(both.at(1).at("images") == 48);

  // A folder of other pictures, and models of other sizes.
  const Outcome other =
      gantrain(words_of("bench modes -o out --presets none --seed 4"), {.folder = folder.path()});
  CHECK(other.code == 2);
  CHECK_THAT(other.err, Catch::Contains("out: was made with --data"));
  train(folder, "small", "--kimg 0.016");
  const Outcome small = gantrain(
      words_of("bench modes -o out --models small --data " + (folder / "data").string() + kFew),
      {.folder = folder.path()});
  CHECK(small.code == 3);
  CHECK_THAT(small.err, Catch::Contains("small/model-") && Catch::Contains("not of 32x32"));
}

TEST_CASE("ModesNeedClasses") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "data");
  write_file(folder / "data/0.png", encode_png({32, 32, 1, std::vector<uint8_t>(32 * 32, 0)}));
  const Outcome outcome = gantrain(words_of("bench modes -o out --presets none --data data" + kFew),
                                   {.folder = folder.path()});
  CHECK(outcome.code == 3);
  CHECK_THAT(outcome.err, Catch::Contains("modes are counted by classes, and it has none"));
  const Outcome unknown = gantrain(words_of("bench modes -o out --presets nothing --data data"),
                                   {.folder = folder.path()});
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.err, Catch::Contains("nothing"));
}

}  // namespace
}  // namespace gantrain
