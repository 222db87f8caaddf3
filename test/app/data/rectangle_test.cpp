// SPDX-License-Identifier: Apache-2.0
// Rectangular pictures, from outside: 32 pixels wide, 16 high.
#include "image/image.h"
#include "support/catch.h"
#include "support/tensor_file.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

// Augmentation is on from the start, and R1 and path length are due within the run.
const std::string kWide =
    "--preset stylegan2-tiny --set samples.rows=2 --set samples.columns=3 "
    "--set stylegan2.channel_max=16 --set stylegan2.z_dim=16 --set stylegan2.w_dim=16 "
    "--set data.synth_size=64 --set ada.p=0.5 --set ada.kimg=1 --set stylegan2.d_interval=4 "
    "--resolution 32x16 --kimg 0.096 ";
// Without batch normalisation, whose statistics are those of each rank's own batch.
const std::string kWideDcgan =
    "--set samples.rows=2 --set samples.columns=3 --set dcgan.norm=none --resolution 32X16 "
    "--kimg 0.096 ";

std::string size_of(const fs::path& picture) {
  const Image image = decode_image(read_file(picture), picture.string());
  return std::to_string(image.width) + "x" + std::to_string(image.height);
}

void check_parity_and_resume(const std::string& flags) {
  const std::string one = check_same_on_two_ranks(flags);
  const TemporaryFolder folder;
  train(folder, "resumed", flags + "--nproc 2 --set save.every=0.016 --kimg 0.048");
  CHECK(model_sha(train(folder, "resumed", flags + "--nproc 2 --set save.every=0.016")) == one);
}

void check_refused(const std::string& arguments, const Words& named) {
  const TemporaryFolder folder;
  const Outcome outcome = gantrain(tiny(arguments), {.folder = folder.path()});
  CAPTURE(arguments, outcome.err);
  CHECK(outcome.code == 2);
  CHECK(is_one_error_line(outcome.err));
  for (const std::string& name : named) CHECK_THAT(outcome.err, Catch::Contains(name));
}

}  // namespace

TEST_CASE("StyleGan2TrainsRectanglesTheSameOnTwoRanksAsInTwoPartsAndResumes") {
  check_parity_and_resume(kWide);
}
TEST_CASE("DcganTrainsRectanglesTheSameOnTwoRanksAsInTwoPartsAndResumes") {
  check_parity_and_resume(kWideDcgan);
}

TEST_CASE("WhatARectangularRunWritesHasItsShape") {
  for (const std::string& flags : {kWide, kWideDcgan}) {
    const TemporaryFolder folder;
    const fs::path made =
        trained(folder, "run", flags + "--metrics swd,msssim --set metrics.images=64");
    CHECK(size_of(made / "samples/reals.png") == "96x32");
    CHECK(size_of(made / "samples/fakes_init.png") == "96x32");
    const auto config = nlohmann::ordered_json::parse(read_file(made / "config.json"));
    CHECK(config["values"]["data.resolution"]["value"] == "32x16");
    succeed(folder, "generate --device cpu --model run --seeds 3 --outdir out");
    CHECK(size_of(folder / "out/seed0003.png") == "32x16");
    succeed(folder, "generate --device cpu --model run --seeds 3 --format npy --outdir out");
    CHECK(read_npy(folder / "out/seed0003.npy").shape == std::vector<int64_t>{3, 16, 32});
    succeed(folder, "generate --device cpu --model run --seeds 0-5 -o grid.png");
    const Image grid = decode_image(read_file(folder / "grid.png"), "grid.png");
    CHECK(grid.width % 32 == 0);
    CHECK(grid.height % 16 == 0);
    CHECK(grid.width * grid.height >= 6 * 32 * 16);
    succeed(folder, "interpolate --device cpu --model run --seeds 1-2 --frames 2 --outdir film");
    CHECK(size_of(folder / "film/frame0000.png") == "32x16");
  }
}

TEST_CASE("ARectangleStartsFromAModelOfASquareButForItsStart") {
  const TemporaryFolder folder;
  trained(folder, "square", kWide + "--resolution 16 --kimg 0");
  const Outcome wide = gantrain(tiny("--run-dir wide " + kWide + "--kimg 0 --init-from square"),
                                {.folder = folder.path()});
  INFO(wide.err);
  CHECK(wide.code == 0);
  CHECK_THAT(wide.err, Catch::Contains("re-initialised G.synthesis.b4.const: [16, 4, 4]"));
  CHECK_THAT(read_file(folder / "wide/log.txt"), Catch::Contains("re-initialised D.b4.fc.weight"));
}

TEST_CASE("SizesThatCannotBeAreRefusedWithTheNearestOnes") {
  check_refused("--resolution 33x16", {"data.resolution = 33x16", "nearest", "32x16"});
  check_refused("--resolution 0x16", {"data.resolution = 0x16", "WIDTHxHEIGHT"});
  check_refused("--resolution 16x", {"data.resolution = 16x", "256x128"});
  check_refused("--resolution x16", {"data.resolution = x16"});
  check_refused("--resolution 16x16x3", {"data.resolution = 16x16x3"});
  check_refused("--resolution 8192x16", {"data.resolution = 8192x16", "4 to 4096"});
  for (const std::string preset : {"pggan-tiny", "stylegan1-tiny"})
    check_refused("--resolution 32x16 --preset " + preset,
                  {"data.resolution = 32x16", "squares", "stylegan2"});
}

TEST_CASE("ADryRunOfARectangleSaysItsSizesAndRules") {
  const TemporaryFolder folder;
  const Outcome outcome =
      gantrain(words_of("--preset stylegan2 --device cpu --resolution 128x32 --dry-run "
                        "--set stylegan2.channel_base=1024 --set stylegan2.channel_max=16"),
               {.folder = folder.path()});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.out, Catch::Contains("0.0002 x 128 x 32"));
}

}  // namespace gantrain
