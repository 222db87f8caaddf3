// SPDX-License-Identifier: Apache-2.0
// nn and project from outside.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

#include "image/image.h"
#include "support/catch.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

// An untrained DCGAN, and pictures/seed0000.png to seed0009.png of it.
void prepare(const TemporaryFolder& folder) {
  static const TemporaryFolder made;
  if (fs::is_empty(made.path())) {
    trained(made, "run", "--kimg 0");
    succeed(made, "generate --device cpu run --seeds 0-9 --outdir pictures");
  }
  fs::copy(made.path(), folder.path(), fs::copy_options::recursive);
}

}  // namespace

TEST_CASE("NnFindsAPlantedCopyAndNamesItsFile") {
  const TemporaryFolder folder;
  prepare(folder);
  const Outcome outcome = succeed(
      folder, "nn --device cpu run --data pictures --seeds 3,77 --count 2 -o sheet.png --json");
  CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == 1);
  const json found = json::parse(outcome.out);
  CHECK(found["reals"] == 10);
  REQUIRE(found["fakes"].size() == 2);
  const json& copy = found["fakes"][0];
  CHECK(copy["name"] == "seed0003");
  CHECK(copy["pixels"].size() == 2);
  CHECK(copy["pixels"][0]["distance"] == 0);
  CHECK(ends_with(copy["pixels"][0]["file"].get<std::string>(), "seed0003.png"));
  CHECK(ends_with(copy["features"][0]["file"].get<std::string>(), "seed0003.png"));
  CHECK(found["fakes"][1]["pixels"][0]["distance"] > 0);
  CHECK(found["copies"][0] == "seed0003");
  const Image sheet = decode_image(read_file(folder / "sheet.png"), "sheet.png");
  CHECK(sheet.width == 5 * 80);  // enlarged for the captions
  CHECK(sheet.height == 2 * (80 + 11));
  succeed(folder, next_of(outcome));
}

TEST_CASE("NnTakesPicturesOfFilesAndTheDataOfItsRun") {
  const TemporaryFolder folder;
  trained(folder, "run", "--kimg 0 --set data.synth_size=200");
  succeed(folder, "generate --device cpu run --seeds 0-9 --outdir pictures");
  const json files = json::parse(
      succeed(folder, "nn --device cpu run --images pictures --data pictures --json").out);
  CHECK(files["fakes"].size() == 10);
  CHECK(files["copies"].size() == 10);
  const json own = json::parse(succeed(folder, "nn --device cpu run --seeds 1 --json").out);
  CHECK(own["reals"] == 200);
  CHECK(own["fakes"].size() == 1);
}

TEST_CASE("ALabelFileOfTheRunIsNotForOtherPictures") {
  const TemporaryFolder folder;
  prepare(folder);
  std::string labels = "file,label\n";
  for (int i = 0; i < 10; ++i) labels += fmt::format("seed{:04}.png,{}\n", i, i % 2);
  write_file(folder / "my.csv", labels);
  train(folder, "labelled", "--kimg 0 --data pictures --set data.labels=my.csv");
  succeed(folder, "generate --device cpu run --seeds 20-22 --outdir other");
  const std::string nn = "nn --device cpu labelled --json --images other";
  const json own = json::parse(succeed(folder, nn).out);
  CHECK(own["reals"] == 10);
  CHECK(own["fakes"].size() == 3);
  CHECK(json::parse(succeed(folder, nn + " --data other").out)["copies"].size() == 3);
}

TEST_CASE("NnNamesWhatItCannotUse") {
  const TemporaryFolder folder;
  prepare(folder);
  fs::create_directory(folder / "empty");
  fs::create_directory(folder / "elsewhere");
  fs::copy_file(files_like(folder / "run", "model-").back(),
                folder / "elsewhere/model.safetensors");
  write_file(folder / "text.pt", "no network");
  check_refusals(folder,
                 {{"nn", 2, "--model"},
                  {"nn none -o a.png", 3, "none"},
                  {"nn none/model.safetensors -o a.png", 3, "none/model.safetensors"},
                  {"nn run", 2, "SHEET.png"},
                  {"nn run -o sheet.jpg", 2, "sheet.jpg"},
                  {"nn run -o none/sheet.png", 8, "none"},
                  {"nn run -o a.png --seeds x", 2, "--seeds x"},
                  {"nn run -o a.png --count 0", 2, "--count 0"},
                  {"nn run -o a.png --seeds 1 --images pictures", 2, "--images"},
                  {"nn run -o a.png --images none", 3, "none"},
                  {"nn run -o a.png --data none", 3, "none"},
                  {"nn run -o a.png --data empty", 3, "empty"},
                  {"nn run -o a.png --class 1", 2, "--class 1"},
                  {"nn run -o a.png --detector none.pt", 3, "none.pt"},
                  {"nn run -o a.png --detector text.pt", 3, "text.pt"},
                  {"nn elsewhere/model.safetensors -o a.png", 2, "--data"},
                  {"nn run --device cpu -o a.png --channels 9", 2, "--channels = 9"},
                  {"nn run -o a.png --sheeet b.png", 2, "did you mean --sheet"}});
  CHECK(!fs::exists(folder / "a.png"));
}

TEST_CASE("ProjectLeavesLatentsThatGenerateReads") {
  const TemporaryFolder folder;
  trained(folder,
          "style",
          "--preset stylegan2-tiny --kimg 0 --set stylegan2.channel_max=16 "
          "--set stylegan2.z_dim=16 --set stylegan2.w_dim=16");
  succeed(folder, "generate --device cpu style --seeds 4,5 --outdir pictures");
  const Outcome outcome = succeed(
      folder,
      "project --device cpu pictures/seed0004.png pictures/seed0005.png --model style --steps 20 "
      "--outdir out --clip way.webp --json --noise-mode none");
  CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == 1);
  const json found = json::parse(outcome.out);
  CHECK(found["space"] == "w");
  REQUIRE(found["pictures"].size() == 2);
  CHECK(found["pictures"][1]["npz"] == "out/seed0005.npz");
  CHECK(fs::exists(folder / "way.webp"));
  CHECK(read_file(folder / "out/seed0004-target.png") ==
        read_file(folder / "pictures/seed0004.png"));
  succeed(folder,
          "generate --device cpu style --w out/seed0004.npz --noise-mode none --outdir again");
  CHECK(next_of(outcome).find("--noise-mode none") != std::string::npos);
  CHECK(read_file(folder / "again/w0000.png") == read_file(folder / "out/seed0004-projected.png"));
  succeed(folder, next_of(outcome));
}

TEST_CASE("ProjectFindsZOfAModelWithoutW") {
  const TemporaryFolder folder;
  prepare(folder);
  const Outcome outcome = succeed(
      folder, "project --device cpu pictures/seed0004.png --model run --steps 20 --outdir out");
  CHECK(outcome.out.empty());
  succeed(folder, "generate --device cpu run --z out/seed0004.npz --outdir again");
  CHECK(read_file(folder / "again/z0000.png") == read_file(folder / "out/seed0004-projected.png"));
  succeed(folder, next_of(outcome));
}

TEST_CASE("CtrlCSavesAProjectionThatTheSameCommandGoesOnWith") {
  const TemporaryFolder folder;
  prepare(folder);
  const Words command = words_of(
      "project --device cpu pictures/seed0004.png --model run --steps 900000 --outdir out");
  for (const bool again : {false, true}) {
    Command project(command, {.folder = folder.path()});
    if (again) REQUIRE(project.wait_for("steps were done already"));
    REQUIRE(eventually([&] { return fs::exists(folder / "out/project-state.safetensors"); }, 60));
    project.signal(SIGINT);
    const Outcome outcome = project.wait();
    INFO(outcome.err);
    CHECK(outcome.code == 130);
    CHECK(outcome.left.empty());
    CHECK(fs::exists(folder / "out/project-state.safetensors"));
    CHECK(outcome.err.find("the same command goes on") != std::string::npos);
  }
  CHECK(!fs::exists(folder / "out/seed0004.npz"));
}

TEST_CASE("ProjectNamesWhatItCannotUse") {
  const TemporaryFolder folder;
  prepare(folder);
  write_file(folder / "text.png", "no picture");
  fs::create_directory(folder / "other");
  fs::copy_file(folder / "pictures/seed0004.png", folder / "other/seed0004.png");
  const std::string good = "project pictures/seed0004.png --model run --outdir out ";
  check_refusals(folder,
                 {{"project --model run --outdir out", 2, "IMAGE"},
                  {"project pictures/seed0004.png --outdir out", 2, "--model"},
                  {"project pictures/seed0004.png --model run", 2, "--outdir"},
                  {"project none.png --model run --outdir out", 3, "none.png"},
                  {"project text.png --model run --outdir out", 3, "text.png"},
                  {"project pictures --model run --outdir out", 3, "pictures"},
                  {"project pictures/seed0004.png --model text.png --outdir out", 3, "text.png"},
                  {good + "other/seed0004.png", 2, "other/seed0004.png"},
                  {good + "--space w", 2, "--space w"},
                  {good + "--space v", 2, "--space v"},
                  {good + "--steps 0", 2, "--steps 0"},
                  {good + "--lr 0", 2, "--lr 0"},
                  {good + "--starts 0", 2, "--starts 0"},
                  {good + "--trunc 0.5", 2, "--trunc"},
                  {good + "--clip way.gif", 2, "way.gif"},
                  {good + "--clip none/way.webp", 8, "none"},
                  {good + "--detector none.pt", 3, "none.pt"},
                  {good + "--device cpu --channels 3", 2, "--channels = 3"},
                  {good + "--class 2", 2, "--class 2"}});
  CHECK(!fs::exists(folder / "out"));
  succeed(folder, good + "--steps 2 --device cpu");
  check_refusals(folder, {{good + "--steps 3 --device cpu", 2, "steps was 2, is 3"}});
}

TEST_CASE("BrokenLatentsAreRefusedByFileAndArray") {
  const TemporaryFolder folder;
  prepare(folder);
  succeed(folder, "project --device cpu pictures/seed0004.png --model run --steps 2 --outdir out");
  const std::string whole = read_file(folder / "out/seed0004.npz");
  write_file(folder / "half.npz", whole.substr(0, whole.size() / 2));
  std::string flipped = whole;
  flipped[whole.size() / 2] = static_cast<char>(flipped[whole.size() / 2] ^ 1);
  write_file(folder / "flipped.npz", flipped);
  check_refusals(folder,
                 {{"generate run --z half.npz --outdir none", 3, "half.npz"},
                  {"generate run --z flipped.npz --outdir none", 3, "flipped.npz (z)"},
                  {"generate run --w out/seed0004.npz --outdir none", 2, "w space"}});
}

}  // namespace gantrain
