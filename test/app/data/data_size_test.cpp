// SPDX-License-Identifier: Apache-2.0
// The size of a run where no --resolution is given.

#include "config/resolve.h"
#include "image/image.h"
#include "support/catch.h"
#include "support/pictures.h"
#include "support/tiny.h"
#include "util/error.h"
#include "util/file.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

struct Chosen {
  std::string size;
  std::string line;
};

Chosen chosen(const std::string& preset,
              const std::vector<SizeCount>& counts,
              const std::vector<std::pair<std::string, std::string>>& flags = {}) {
  Config config = resolve({.preset = preset, .flags = flags}, {});
  config.set("data.path", Json("pictures"), "flag --data");
  int64_t pictures = 0;
  for (const SizeCount& row : counts) pictures += row.pictures;
  const std::string line = choose_resolution(
      config, [&] { return PictureSizes{.counts = counts, .pictures = pictures}; });
  return {text_of(config.get("data.resolution")), line};
}

std::vector<SizeCount> all_of(int64_t width, int64_t height) { return {{{width, height}, 10}}; }

void write_squares(const TemporaryFolder& folder, const std::string& name, int64_t side) {
  fs::create_directories(folder / name);
  for (int i = 0; i < 4; ++i)
    write_file(folder / name / (std::to_string(i) + ".png"),
               encode_png(test_picture(side, side, 3)));
}

TEST_CASE("TheSizeOfTheDataIsTheDefaultOfPresetsThatHaveNoneOfTheirOwn") {
  for (const char* preset : {"stylegan2",
                             "stylegan2-ada",
                             "stylegan3-t",
                             "r3gan",
                             "stylegan1",
                             "pggan",
                             "dcgan",
                             "wgan-gp",
                             "projected-lite"}) {
    CAPTURE(preset);
    CHECK(chosen(preset, all_of(32, 32)).size == "32");
  }
  const Chosen one = chosen("stylegan2", all_of(64, 64));
  CHECK(one.size == "64");
  CHECK(one.line == "auto    data.resolution 64, not the preset's 256: the size of the pictures");
  CHECK(chosen("stylegan2", all_of(1024, 1024)).size == "1024");
  CHECK(chosen("stylegan2", all_of(256, 128)).size == "256x128");
  CHECK(chosen("stylegan2", all_of(256, 256)).line.empty());
  const Chosen most = chosen("stylegan2", {{{64, 64}, 7}, {{500, 400}, 3}});
  CHECK(most.size == "64");
  CHECK(holds(most.line, "the size of 7 of 10 pictures"));
}

TEST_CASE("ASizeThatIsGivenOrOfAPaperStays") {
  CHECK(chosen("stylegan2-paper256", all_of(64, 64)).size == "256");
  CHECK(chosen("stylegan2-cifar", all_of(64, 64)).size == "32");
  CHECK(chosen("stylegan3-r-afhqv2", all_of(64, 64)).size == "512");
  CHECK(chosen("stylegan2", all_of(64, 64), {{"--resolution", "128"}}).size == "128");
  CHECK(chosen("stylegan2", all_of(64, 64), {{"--init-from", "m.safetensors"}}).size == "256");
  CHECK(chosen("stylegan2", all_of(64, 64), {{"--set", "data.size_from=preset"}}).size == "256");
  CHECK(chosen("stylegan2", {}).size == "256");
  // What a CPU can train is not made larger.
  CHECK(chosen("stylegan2-tiny", all_of(512, 512)).size == "32");
  CHECK(chosen("stylegan2-tiny", all_of(16, 16)).size == "16");
}

TEST_CASE("ASizeThatTheNetworksCannotMakeGivesTheNearestOrThePresets") {
  for (const char* preset : {"stylegan2", "r3gan", "dcgan", "dcgan-tiny"})
    CHECK(chosen(preset, all_of(28, 28)).size == "28");
  for (const char* preset :
       {"stylegan3-t", "pggan", "stylegan1", "projected", "pggan-tiny", "stylegan3-tiny"}) {
    CAPTURE(preset);
    const Chosen near = chosen(preset, all_of(28, 28));
    CHECK(near.size == "32");
    if (!holds(preset, "tiny"))
      CHECK(holds(near.line, "the nearest squares that they can make are 16 and 32"));
  }
  const Chosen larger = chosen("stylegan2", all_of(1000, 1000));
  CHECK(larger.size == "256");
  CHECK(holds(larger.line, "256, the preset's: the pictures are 1000x1000"));
  CHECK(holds(larger.line, "896 and 1024"));
  const Chosen many = chosen("stylegan2", {{{40, 44}, 1}, {{50, 33}, 1}, {{20, 90}, 1}});
  CHECK(many.size == "32");
  CHECK(holds(many.line, "3 sizes from 50x33 to 20x90"));
  CHECK(chosen("dcgan", all_of(1024, 1024)).size == "64");
}

TEST_CASE("ASizeThatNoNetworkMakesIsRefusedWithTheNearestBelowAndAbove") {
  const auto refusal = [](const std::string& recipe, const Size& size) {
    return user_error(Exit::kUsage, [&] { find_recipe_facts(recipe).check_resolution(size); });
  };
  for (const char* recipe : {"stylegan1", "pggan", "stylegan3"}) {
    CHECK(holds(refusal(recipe, square_of(28)), "nearest: 16 and 32"));
    CHECK(holds(refusal(recipe, square_of(2000)), "nearest: 1024"));
  }
  CHECK(holds(refusal("stylegan3", square_of(4)), "nearest: 8"));
}

TEST_CASE("ARunTakesTheSizeOfItsDataAndKeepsItWhenItResumes") {
  const TemporaryFolder folder;
  write_squares(folder, "small", 16);
  write_squares(folder, "large", 64);
  const std::string command =
      "--preset dcgan-tiny --device cpu --threads 1 --batch 4 --metrics none --save-every 1 "
      "--set samples.rows=1 --set samples.columns=2 --data small --run-dir run --kimg ";
  const Outcome first = succeed(folder, command + "0.008");
  CHECK(holds(first.err, "data.resolution 16, not the preset's 32: the size of the pictures"));
  CHECK(holds(first.err, "4 pictures, 16x16x3"));
  const Outcome more = succeed(folder, command + "0.016");
  CHECK(holds(more.err, "resume  at 0.008 kimg"));
  const std::string from = "--preset dcgan-tiny --device cpu --data large --dry-run --init-from ";
  CHECK(holds(succeed(folder, from + "run").out,
              "data.resolution 16, not the preset's 32: the size of run"));
  fs::copy_file(last_model(folder / "run"), folder / "m.safetensors");
  CHECK(holds(succeed(folder, from + "m.safetensors").out,
              "data.resolution 16, not the preset's 32: the size of m.safetensors"));
  const Outcome plan =
      succeed(folder, "--preset stylegan2 --device cpu --data large --resolution 256 --dry-run");
  CHECK(holds(plan.out, "data    large, 4 pictures of 64x64"));
  CHECK(holds(plan.out, "4 of 4 pictures are enlarged to twice their size or more"));
}

}  // namespace
}  // namespace gantrain
