// SPDX-License-Identifier: Apache-2.0
// edit, and --direction of the verbs that draw, from outside.
#include <fmt/format.h>

#include "image/image.h"
#include "support/catch.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr const char* kTiny =
    "--preset stylegan2-tiny --kimg 0 --set stylegan2.channel_max=16 --set stylegan2.z_dim=16 "
    "--set stylegan2.w_dim=16";  // 16 pixels, 6 layers

// An untrained StyleGAN2 in `style`, and its directions in `sefa` and `pca`.
void prepare_style(const TemporaryFolder& folder) {
  static const TemporaryFolder made;
  if (fs::is_empty(made.path())) {
    trained(made, "style", kTiny);
    succeed(made, "edit --device cpu style --count 3 --seeds 0 --columns 2 -o sefa");
    succeed(made,
            "edit --device cpu style --method ganspace --samples 200 --layers 2-5 --count 3 "
            "--seeds 0 --columns 2 -o pca");
  }
  fs::copy(made.path(), folder.path(), fs::copy_options::recursive);
}

std::string picture(const TemporaryFolder& folder, const std::string& arguments) {
  succeed(folder, "generate --device cpu style --outdir drawn " + arguments);
  return read_file(files_like(folder / "drawn", "").front());
}

}  // namespace

TEST_CASE("EditLeavesDirectionsSheetsAndACommandThatGoesOn") {
  const TemporaryFolder folder;
  prepare_style(folder);
  for (const std::string more :
       {"", "--method ganspace --samples 300 --trunc 0.5 --noise-mode none --layers 1-4"}) {
    const Outcome outcome =
        succeed(folder, "edit --device cpu style --count 2 --seeds 4-5 --json -o out " + more);
    CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == 1);
    const json found = json::parse(outcome.out);
    CHECK(found["method"] == (more.empty() ? "sefa" : "ganspace"));
    CHECK(found["layers"].size() == (more.empty() ? 6 : 4));
    CHECK(found["w_dim"] == 16);
    CHECK(found["npz"] == "out/directions.npz");
    REQUIRE(found["directions"].size() == 2);
    CHECK(found["directions"][1]["sheet"] == "out/direction01.png");
    CHECK(!found["directions"][1].contains("vector"));
    CHECK(found["directions"][0]["value"] > found["directions"][1]["value"]);
    const Image sheet = decode_image(read_file(folder / "out/direction01.png"), "sheet");
    CHECK(sheet.width == 7 * 80);  // enlarged for the captions
    CHECK(sheet.height == 2 * (80 + 11));
    const json beside = json::parse(read_file(folder / "out/directions.json"));
    CHECK(beside["directions"][0]["vector"].size() == 16);
    CHECK(beside["model"] == found["model"]);
    succeed(folder, next_of(outcome));
    CHECK(fs::exists(folder / "edited.png"));
    fs::remove(folder / "edited.png");
    fs::remove_all(folder / "out");
  }
  const Outcome fewer =
      succeed(folder, "edit --device cpu style --count 1 --seeds 0 --columns 2 -o sefa");
  CHECK(holds(fewer.err, "sefa: also holds 2 files of an earlier command: direction01.png, ..."));
}

TEST_CASE("ADirectionMovesPicturesInItsLayers") {
  const TemporaryFolder folder;
  prepare_style(folder);
  const std::string plain = picture(folder, "--seeds 7");
  const std::string sefa = "--seeds 7 --directions sefa/directions.npz --direction ";
  const std::string pca = "--seeds 7 --directions pca/directions.npz --direction ";
  CHECK(picture(folder, sefa + "0:0") == plain);
  const std::string moved = picture(folder, sefa + "0:3");
  CHECK(moved != plain);
  CHECK(moved != picture(folder, sefa + "0:-3"));
  CHECK(moved != picture(folder, sefa + "1:3"));
  CHECK(moved == picture(folder, sefa + "0:3@0-5"));
  CHECK(moved == picture(folder, sefa + "0:1 --direction 0:2"));
  CHECK(picture(folder, pca + "1:2") == picture(folder, pca + "1:2@2-5"));
  CHECK(picture(folder, pca + "1:2") != picture(folder, pca + "1:2@2-4"));
}

TEST_CASE("WhatProjectFoundGoesAlongADirection") {
  const TemporaryFolder folder;
  prepare_style(folder);
  succeed(folder, "generate --device cpu style --seeds 4 --outdir pictures");
  succeed(folder,
          "project --device cpu pictures/seed0004.png --model style --steps 3 --outdir out");
  const std::string w = "--w out/seed0004.npz";
  const std::string plain = picture(folder, w);
  fs::remove_all(folder / "drawn");
  CHECK(plain == read_file(folder / "out/seed0004-projected.png"));
  CHECK(picture(folder, w + " --directions pca/directions.npz --direction 0:2") != plain);
  succeed(folder,
          "interpolate --device cpu style --seeds 4,4 --frames 2 --directions pca/directions.npz "
          "--direction 0:-2:2 --direction 1:1@3 --outdir walk");
  CHECK(read_file(folder / "walk/frame0000.png") != read_file(folder / "walk/frame0002.png"));
}

TEST_CASE("DirectionsOfAnotherModelAreNamed") {
  const TemporaryFolder folder;
  prepare_style(folder);
  trained(folder, "other", std::string(kTiny) + " --seed 5");
  const std::string use = " --seeds 0 --directions sefa/directions.npz --direction 0:1 -o a.png";
  CHECK(!holds(succeed(folder, "generate --device cpu style" + use).err, "another model"));
  CHECK(holds(succeed(folder, "generate --device cpu other" + use).err,
              "sefa/directions.npz: these directions were found in another model"));
  trained(folder, "wide", "--preset stylegan2-tiny --kimg 0 --set stylegan2.channel_max=16");
  check_refusals(folder, {{"generate --device cpu wide" + use, 3, "they have 16 numbers"}});
}

TEST_CASE("ClassesOfAConditionalModelHaveLinesOfTheirOwn") {
  const TemporaryFolder folder;
  trained(folder, "style", std::string(kTiny) + " --cond on");
  const json all = json::parse(
      succeed(folder,
              "edit --device cpu style --method ganspace --samples 90 --count 1 --seeds 1 "
              "--columns 2 --json -o all")
          .out);
  const json one = json::parse(
      succeed(folder,
              "edit --device cpu style --method ganspace --samples 90 --count 1 --seeds 1 "
              "--columns 2 --class 2 --json -o one")
          .out);
  CHECK(one["classes"] == json{2});
  REQUIRE(all["classes"].size() > 1);
  CHECK(all["directions"][0]["value"] != one["directions"][0]["value"]);
  const auto lines = [&](const std::string& file) {
    return decode_image(read_file(folder / file), file).height / (80 + 11);
  };
  CHECK(lines("one/direction00.png") == 1);
  CHECK(lines("all/direction00.png") == static_cast<int64_t>(all["classes"].size()));
}

TEST_CASE("EditNamesWhatItCannotUse") {
  const TemporaryFolder folder;
  prepare_style(folder);
  trained(folder, "dcgan", "--kimg 0");
  write_file(folder / "file", "no folder");
  const std::string good = "edit --device cpu style -o out ";
  check_refusals(
      folder,
      {{"edit", 2, "--model"},
       {"edit style", 2, "-o FOLDER"},
       {"edit none -o out", 3, "none"},
       {"edit --device cpu dcgan -o out", 2, "dcgan has no w space"},
       {"edit --device cpu style -o file --count 1", 8, "file"},
       {good + "--method pca", 2, "--method pca: allowed: sefa, ganspace"},
       {good + "--count 0", 2, "--count 0"},
       {good + "--count 17", 2, "w of style has 16 numbers"},
       {good + "--layers 8-10", 2, "layer 10: style has 6 layers, 0 to 5"},
       {good + "--layers x", 2, "--layers x"},
       {good + "--samples 100", 2, "--method ganspace"},
       {good + "--method ganspace --samples 1", 2, "--samples 1"},
       {good + "--strength nan", 2, "--strength nan"},
       {good + "--strength 0", 2, "--strength 0"},
       {good + "--columns 1", 2, "--columns 1"},
       {good + "--seeds x", 2, "--seeds x"},
       {good + "--seeds 0-64", 2, "at most 64"},
       {good + "--method ganspace --samples 90000000 --seeds 0-64", 2, "at most 64"},
       {"edit --device cpu style -o file --method ganspace --samples 90000000", 8, "file"},
       {good + "--class 1", 2, "--class 1"},
       {good + "--level 8", 2, "--level 8"}});
  CHECK(!fs::exists(folder / "out"));
}

TEST_CASE("ADirectionThatCannotBeIsNamed") {
  const TemporaryFolder folder;
  prepare_style(folder);
  trained(folder, "dcgan", "--kimg 0");
  const std::string whole = read_file(folder / "sefa/directions.npz");
  write_file(folder / "half.npz", whole.substr(0, whole.size() / 2));
  std::string flipped = whole;
  flipped[120] = static_cast<char>(flipped[120] ^ 1);
  write_file(folder / "flipped.npz", flipped);
  const std::string of = " --seeds 0 -o a.png --directions ";
  const std::string good = "generate --device cpu style" + of + "sefa/directions.npz ";
  check_refusals(
      folder,
      {{good, 2, "--direction 0:3"},
       {"generate style --seeds 0 -o a.png --direction 0:1", 2, "--directions FILE.npz"},
       {"interpolate style -o a.webp --direction 0:1", 2, "--directions FILE.npz"},
       {good + "--direction 3:1", 2, "3 directions, 0 to 2"},
       {good + "--direction 0:1@3-10", 2, "layer 10: style has 6 layers, 0 to 5"},
       {good + "--direction 0:nan", 2, "--direction 0:nan"},
       {good + "--direction 0:1:2", 2, "--direction 0:1:2"},
       {good + "--direction 0", 2, "3:2.5@4-7"},
       {"generate --device cpu style" + of + "none.npz --direction 0:1", 3, "none.npz"},
       {"generate --device cpu style" + of + "half.npz --direction 0:1", 3, "half.npz"},
       {"generate --device cpu style" + of + "flipped.npz --direction 0:1", 3, "flipped.npz"},
       {"generate --device cpu dcgan" + of + "sefa/directions.npz --direction 0:1",
        2,
        "dcgan has no w space"}});
  CHECK(!fs::exists(folder / "a.png"));
}

TEST_CASE("InspectSaysWhatAFileOfDirectionsIs") {
  const TemporaryFolder folder;
  prepare_style(folder);
  const std::string text = succeed(folder, "inspect pca/directions.npz").out;
  for (const std::string part : {"directions", "lengths", "mean", "ganspace", "--direction 0:3"}) {
    CAPTURE(part);
    CHECK(holds(text, part));
  }
}

}  // namespace gantrain
