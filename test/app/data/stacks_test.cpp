// SPDX-License-Identifier: Apache-2.0
// Runs on pictures of 16 bits and of more channels than a PNG has, and what is drawn of them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "image/image.h"
#include "support/catch.h"
#include "support/tensor_file.h"
#include "support/tiny.h"
#include "util/file.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

const std::string kStacks =
    "--set data.channels=5 --set data.depth=16 --set data.synth_size=64 --set samples.rows=1 "
    "--set samples.columns=4 ";
const std::string kSmallDcgan = "--set dcgan.channels=16 --set dcgan.d_channels=8 ";
const std::string kSmallStyleGan2 =
    "--preset stylegan2-tiny --set stylegan2.channel_base=256 --set stylegan2.channel_max=16 --set "
    "stylegan2.w_dim=16 ";

Image picture_in(const fs::path& file, int64_t depth = 16) {
  Image image;
  decode_image(read_file(file), file.string(), {.depth = depth}, image);
  return image;
}

std::vector<uint16_t> words_in(const Image& image) {
  std::vector<uint16_t> all(image.pixels.size() / 2);
  std::memcpy(all.data(), image.pixels.data(), image.pixels.size());
  return all;
}

// Trains in one piece and in two.
void check_stacks_resume(const std::string& flags) {
  const TemporaryFolder folder;
  const fs::path whole = train(folder, "whole", flags + "--kimg 0.096");
  train(folder, "part", flags + "--kimg 0.048");
  const Outcome resumed =
      gantrain(tiny("--run-dir part " + flags + "--kimg 0.096"), {.folder = folder.path()});
  INFO(resumed.err);
  REQUIRE(resumed.code == 0);
  CHECK(model_sha(folder / "part") == model_sha(whole));
}

TEST_CASE("StacksOfSixteenBitsAreResumedToTheSameWeights") {
  check_stacks_resume(kStacks + kSmallDcgan);
  check_stacks_resume(kSmallStyleGan2 + kStacks);
}

TEST_CASE("StacksOfSixteenBitsTrainTheSameOnTwoRanks") {
  check_same_on_two_ranks(kStacks + kSmallDcgan + "--kimg 0.064 --set dcgan.norm=none ");
  check_same_on_two_ranks(kSmallStyleGan2 + kStacks + "--kimg 0.064 ");
}

TEST_CASE("EveryRecipeTrainsFiveChannels") {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> recipes = {
      {"pggan", "--set pggan.fmap_max=16 --set pggan.latent_size=16 --set schedule.start=8 "},
      {"stylegan1", "--set stylegan1.fmap_max=16 --set stylegan1.latent_size=16 "},
      {"stylegan2", "--set stylegan2.channel_base=256 --set stylegan2.channel_max=16 "},
      {"stylegan3",
       "--set stylegan3.num_layers=4 --set stylegan3.margin=2 --set stylegan3.channel_max=8 --set "
       "stylegan3.d_channel_max=16 "},
      {"r3gan", ""}};
  for (const auto& [recipe, more] : recipes) {
    CAPTURE(recipe);
    const fs::path run =
        train(folder, recipe, "--preset " + recipe + "-tiny " + more + kStacks + "--kimg 0.032 ");
    const std::string array = read_file(run / "samples/fakes_init.npy");
    CHECK(npy_form(array, "fakes_init.npy").shape == std::vector<int64_t>{4, 16, 16, 5});
  }
  const Outcome refused =
      gantrain(tiny("--preset projected-tiny --run-dir projected --kimg 0.032 " + kStacks),
               {.folder = folder.path()});
  CHECK(refused.code != 0);
  CHECK(holds(refused.err, "data.channels = 5"));
}

TEST_CASE("ColoursOfStacksAreNotAugmented") {
  const TemporaryFolder folder;
  train(folder,
        "ada",
        kSmallStyleGan2 + kStacks +
            "--kimg 0.032 --set augment.mode=ada --set ada.mode=fixed --set ada.p=0.8 ");
  train(folder, "diff", kSmallDcgan + kStacks + "--kimg 0.032 --set augment.mode=diff ");
}

TEST_CASE("WhatARunDrawsOfStacksIsLossless") {
  const TemporaryFolder folder;
  const fs::path run = train(folder, "run", kStacks + kSmallDcgan + "--kimg 0");
  // The grid shows the first three channels in 16 bits, the array beside it all.
  const Image grid = picture_in(run / "samples/fakes_init.png");
  CHECK(image_info(read_file(run / "samples/fakes_init.png"), "grid").depth == 16);
  CHECK(grid.channels == 3);
  const std::string array = read_file(run / "samples/fakes_init.npy");
  const NpyForm form = npy_form(array, "fakes_init.npy");
  CHECK(form.type == "<u2");
  REQUIRE(form.shape == std::vector<int64_t>{4, 16, 16, 5});
  const auto value = [&](int64_t picture, int64_t pixel, int64_t channel) {
    uint16_t number = 0;
    const int64_t at = (picture * 256 + pixel) * 5 + channel;
    std::memcpy(&number, array.data() + form.start + 2 * static_cast<size_t>(at), 2);
    return number;
  };
  CHECK(words_in(grid)[3 * 16 + 2] == value(1, 0, 2));

  for (const char* how :
       {"--format npy --outdir numbers", "--format stack --outdir stack", "--outdir png"})
    succeed(folder, std::string("generate --device cpu run --seeds 3 ") + how);
  const std::vector<double> x = read_npy(folder / "numbers/seed0003.npy").values();
  const Image stack = picture_in(folder / "stack/seed0003.npy");
  REQUIRE(stack.channels == 5);
  for (int64_t c = 0; c < 5; ++c) {
    const fs::path file = folder / ("png/seed0003.c" + std::to_string(c) + ".png");
    const std::vector<uint16_t> plane = words_in(picture_in(file));
    CHECK(image_info(read_file(file), "plane").depth == 16);
    REQUIRE(plane.size() == 256);
    for (size_t i = 0; i < 256; ++i) {
      const double level = std::floor(
          std::clamp(x[static_cast<size_t>(c) * 256 + i] * 32767.5 + 32768, 0.0, 65535.0));
      CHECK(std::abs(plane[i] - level) <= 1);  // float32 rounds where it is not exact
      CHECK(words_in(stack)[5 * i + static_cast<size_t>(c)] == plane[i]);
    }
  }
  // What was drawn is data again.
  const Outcome inspected = succeed(folder, "data inspect png --json");
  CHECK(nlohmann::json::parse(inspected.out)["channels"] == nlohmann::json({{"5", 1}}));
  CHECK(nlohmann::json::parse(inspected.out)["depths"] == nlohmann::json({{"16", 1}}));
  succeed(folder, "data pack png -o packed --resolution 16 --depth 16");
  CHECK(picture_in(folder / "packed/00000/img00000000.npy").pixels == stack.pixels);
}

TEST_CASE("ChosenChannelsAreShown") {
  const TemporaryFolder folder;
  const fs::path run =
      train(folder, "run", kStacks + kSmallDcgan + "--kimg 0 --set samples.channels=4");
  CHECK(picture_in(run / "samples/latest.png").channels == 1);
  CHECK(picture_in(run / "samples/reals.png").channels == 1);
  succeed(folder, "generate --device cpu run --seeds 0-3 -o all.png");
  succeed(folder, "generate --device cpu run --seeds 0-3 -o some.png --channels 4,1,2");
  const std::vector<uint16_t> all = words_in(picture_in(folder / "all.png"));
  const std::vector<uint16_t> some = words_in(picture_in(folder / "some.png"));
  REQUIRE(all.size() == some.size());
  CHECK(all[1] == some[1]);
  CHECK(all[2] == some[2]);
  CHECK(all != some);
  succeed(folder, "interpolate --device cpu run --seeds 0-1 --frames 2 --channels 3 -o walk.webp");
  for (const auto& [arguments, said] : std::vector<std::pair<std::string, std::string>>{
           {"generate --device cpu run --seeds 0 -o no.png --channels 5", "--channels = 5: "},
           {"generate --device cpu run --seeds 0 -o no.png --channels 0,1,2,3", "up to three"}}) {
    const Outcome outcome = run_in(folder, arguments);
    CHECK(outcome.code == 2);
    CHECK(holds(outcome.err, said));
  }
  const Outcome wrong =
      gantrain(tiny("--run-dir wrong --kimg 0 --set samples.channels=7 " + kStacks),
               {.folder = folder.path()});
  CHECK(wrong.code == 2);
  CHECK(holds(wrong.err, "samples.channels = 7"));
}

TEST_CASE("ATargetOfSixteenBitsIsProjected") {
  const TemporaryFolder folder;
  train(folder, "run", kStacks + kSmallDcgan + "--kimg 0");
  succeed(folder, "generate --device cpu run --seeds 1 --format stack --outdir target");
  succeed(folder, "project --device cpu --model run target/seed0001.npy --steps 3 --outdir out");
  const Image target = picture_in(folder / "target/seed0001.npy");
  CHECK(words_in(picture_in(folder / "out/seed0001-target.c3.png"))[7] ==
        words_in(target)[5 * 7 + 3]);
  CHECK(image_info(read_file(folder / "out/seed0001-projected.c0.png"), "a").depth == 16);
}

TEST_CASE("RunsOfBytesSayNothingOfDepth") {
  const TemporaryFolder folder;
  const fs::path run = trained(folder, "run", "--kimg 0");
  CHECK_FALSE(holds(read_file(last_model(run)).substr(0, 20000), "gantrain.depth"));
  CHECK_FALSE(fs::exists(run / "samples/fakes_init.npy"));
}

}  // namespace
}  // namespace gantrain
