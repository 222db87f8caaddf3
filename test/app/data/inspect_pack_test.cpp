// SPDX-License-Identifier: Apache-2.0
// gantrain data inspect and data pack, from outside.
#include <fmt/format.h>
#include <signal.h>

#include "image/image.h"
#include "support/catch.h"
#include "support/pictures.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

void write_pictures(const TemporaryFolder& folder, int count, int64_t side = 48) {
  for (int i = 0; i < count; ++i) {
    const fs::path in = folder / (i % 2 == 0 ? "in/cat" : "in/dog");
    fs::create_directories(in);
    Image image = test_picture(side, side, 3);
    for (size_t at = 0; at < image.pixels.size(); at += 7)
      image.pixels[at] = static_cast<uint8_t>(image.pixels[at] + 31 * i);
    write_file(in / (std::to_string(1000 + i) + ".jpg"), encode_jpeg(image, 90));
  }
}

std::string last_line(const std::string& text) {
  if (text.size() < 2) return text;
  return text.substr(text.rfind('\n', text.size() - 2) + 1);
}

TEST_CASE("InspectPrintsTheReportAndWhatToRunNext") {
  const TemporaryFolder folder;
  write_pictures(folder, 10);
  write_file(folder / "in/dog/bad.png", "text");
  const Outcome outcome = gantrain(words_of("data inspect in --sheet sheet.png --bad bad.txt"),
                                   {.folder = folder.path()});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(holds(outcome.out, "10 pictures"));
  CHECK(holds(outcome.out, "0 cat (5), 1 dog (5)"));
  CHECK(holds(outcome.out, "in/dog/bad.png: not a PNG, JPEG or WebP picture"));
  CHECK(holds(read_file(folder / "bad.txt"), "in/dog/bad.png"));
  CHECK(decode_image(read_file(folder / "sheet.png"), "sheet").width > 96);
  CHECK_FALSE(holds(outcome.err, "\r"));
  const std::string next = last_line(outcome.err);
  REQUIRE(starts_with(next, "next    gantrain "));
  const Words command = words_of(trim(next.substr(std::string("next    gantrain ").size())));
  Words planned = command;
  planned.emplace_back("--dry-run");
  const Outcome run = gantrain(planned, {.folder = folder.path()});
  INFO(run.err);
  CHECK(run.code == 0);
}

TEST_CASE("PackedAlphaIsKeptByTheCommandThatFollows") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "in");
  write_file(folder / "in/a.png", encode_png(test_picture(16, 16, 4)));
  for (const auto& [channels, more] :
       std::vector<std::pair<std::string, std::string>>{{" --channels 4", " --set data.channels=4"},
                                                        {" --channels 2", " --set data.channels=2"},
                                                        {" --channels 3", ""},
                                                        {"", ""}}) {
    const Outcome packed =
        succeed(folder, "data pack in -o out.zip --force --resolution 16" + channels);
    CHECK(holds(packed.err, "--data out.zip --resolution 16" + more + "\n"));
  }
}

TEST_CASE("InspectAnswersInJson") {
  const TemporaryFolder folder;
  write_pictures(folder, 4);
  const Outcome outcome = gantrain(words_of("data inspect --json in"), {.folder = folder.path()});
  REQUIRE(outcome.code == 0);
  const auto json = nlohmann::ordered_json::parse(outcome.out);
  CHECK(json["pictures"] == 4);
  CHECK(json["classes"][0]["name"] == "cat");
  CHECK(json["bad"].empty());
  CHECK(json["advice"]["gamma"].is_number());
}

TEST_CASE("PackedDataCanBeTrainedOn") {
  const TemporaryFolder folder;
  write_pictures(folder, 12);
  write_file(folder / "in/dog/bad.png", "text");
  const Outcome outcome = gantrain(words_of("data pack in -o out.zip --resolution 32 --json"),
                                   {.folder = folder.path()});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  const auto json = nlohmann::ordered_json::parse(last_line(outcome.out));
  CHECK(json["pictures"] == 12);
  CHECK(json["bad"].size() == 1);
  CHECK(holds(outcome.err, "out.zip.bad.txt"));
  CHECK(holds(outcome.err, "next    gantrain "));
  const Outcome run = gantrain(words_of("data inspect out.zip"), {.folder = folder.path()});
  CHECK(run.code == 0);
  CHECK(holds(run.out, "0 cat (6), 1 dog (6)"));
}

TEST_CASE("WrongUseOfDataIsNamed") {
  const TemporaryFolder folder;
  write_pictures(folder, 2);
  fs::create_directories(folder / "empty");
  write_file(folder / "exists.zip", "mine");
  struct Wrong {
    std::string arguments;
    int code;
    std::string named;
  };
  for (const Wrong& wrong : std::vector<Wrong>{
           {"data inspekt in", 2, "inspect"},
           {"data inspect", 2, "which data"},
           {"data inspect nothing", 3, "nothing"},
           {"data inspect empty", 3, "empty"},
           {"data inspect synth:shapes", 2, "synth:shapes"},
           {"data inspect in --sheet sheet.jpg", 2, "--sheet"},
           {"data inspect in --bad no/such/list.txt", 8, "--bad"},
           {"data pack in -o out.zip", 2, "--resolution"},
           {"data pack in --resolution 32", 2, "-o"},
           {"data pack in -o out.zip --resolution 3000000", 2, "--resolution 3000000"},
           {"data pack in -o out.zip --resolution 32 --fit squeeze", 2, "squeeze"},
           {"data pack in -o out.zip --resolution 32 --filter box1", 2, "box"},
           {"data pack in -o out.zip --resolution 32 --max-images 0", 2, "--max-images"},
           {"data pack in -o out.zip --resolution 32 --channels 17", 2, "--channels"},
           {"data pack in -o out.zip --resolution 32 --png-level 12", 2, "--png-level"},
           {"data pack in -o exists.zip --resolution 32", 2, "--force"},
           {"data pack in -o in --resolution 32", 2, "in"},
           {"data pack in -o no/such/out.zip --resolution 32", 8, "no/such"}}) {
    CAPTURE(wrong.arguments);
    const Outcome outcome = gantrain(words_of(wrong.arguments), {.folder = folder.path()});
    INFO(outcome.err);
    CHECK(outcome.code == wrong.code);
    CHECK(is_one_error_line(outcome.err));
    CHECK(outcome.out.empty());
    CHECK(holds(outcome.err, wrong.named));
  }
  CHECK(read_file(folder / "exists.zip") == "mine");
}

TEST_CASE("CtrlCEndsPackingAndTheSameCommandGoesOn") {
  const TemporaryFolder folder;
  write_pictures(folder, 36, 640);
  const Words pack = words_of("data pack in -o out.zip --resolution 512 --png-level 9");
  REQUIRE(gantrain(words_of("data pack in -o whole.zip --resolution 512 --png-level 9"),
                   {.folder = folder.path()})
              .code == 0);
  const fs::path partial = folder / "out.zip.partial";
  const auto written = [&] {
    std::error_code error;
    const uintmax_t size = fs::file_size(partial, error);
    return error ? 0 : size;
  };
  for (const int signal : {SIGINT, SIGTERM, SIGKILL}) {
    CAPTURE(signal);
    const uintmax_t before = written();
    Command command(pack, {.folder = folder.path()});
    REQUIRE(eventually([&] { return written() > before; }, 60));
    command.signal(signal);
    const Outcome stopped = command.wait();
    INFO(stopped.err);
    CHECK(stopped.code == 128 + signal);
    CHECK(stopped.left.empty());
    CHECK_FALSE(fs::exists(folder / "out.zip"));
  }
  const Outcome outcome = gantrain(pack, {.folder = folder.path()});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(read_file(folder / "out.zip") == read_file(folder / "whole.zip"));
  CHECK_FALSE(fs::exists(partial));
}

TEST_CASE("CtrlCEndsInspect") {
  const TemporaryFolder folder;
  write_pictures(folder, 1, 1000);
  const std::string picture = read_file(folder / "in/cat/1000.jpg");
  for (int i = 1; i < 100; ++i)  // what stands behind a picture is not read
    write_file(folder / fmt::format("in/cat/{}.jpg", 1000 + i), picture + std::to_string(i));
  CHECK(gantrain(words_of("data inspect in -h"), {.folder = folder.path()}).code == 0);
  Command looking(words_of("data inspect in"), {.folder = folder.path()});
  // Its threads are at work when it has more than one.
  REQUIRE(eventually(
      [&] {
        std::error_code error;
        const fs::path tasks = "/proc/" + std::to_string(looking.pid()) + "/task";
        return std::distance(fs::directory_iterator(tasks, error), {}) > 1;
      },
      60));
  looking.signal(SIGINT);
  const Outcome outcome = looking.wait();
  CHECK(outcome.code == 130);
  CHECK(outcome.out.empty());
  CHECK(outcome.left.empty());
}

}  // namespace
}  // namespace gantrain
