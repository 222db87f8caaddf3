// SPDX-License-Identifier: Apache-2.0
// Pictures of StyleGAN2 weights that another program made: what it drew there is drawn here.
#include <algorithm>
#include <cmath>

#include "image/image.h"
#include "support/catch.h"
#include "support/paths.h"
#include "support/tensor_file.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

constexpr double kTolerance = 5e-5;  // of the largest value
constexpr size_t kPixels = 3 * 32 * 32;

struct Reference {
  FileTensors io;
  std::vector<int64_t> classes;  // of samples 0..3; empty: unconditional
};

// The network as NAME.safetensors in the folder, and what it drew.
Reference prepare(const TemporaryFolder& folder, const std::string& name) {
  const fs::path fixtures = fixtures_folder();
  FileTensors network;
  for (const auto& [key, tensor] : read_safetensors(fixtures / (name + "_G.safetensors")))
    network[key.substr(2)] = tensor;  // "G/"
  write_safetensors(
      folder / "model.safetensors", network, {{"gantrain.model", R"({"recipe":"stylegan2"})"}});
  Reference reference{read_safetensors(fixtures / (name + "_io.safetensors")), {}};
  if (const auto found = reference.io.find("in/class_idx"); found != reference.io.end()) {
    for (size_t i = 0; i < 4; ++i)
      reference.classes.push_back(static_cast<uint8_t>(found->second.bytes[8 * i]));
  }
  return reference;
}

void require_drawn(const TemporaryFolder& folder, const std::string& more) {
  CAPTURE(more);
  const Outcome outcome = gantrain(words_of("generate --device cpu model.safetensors " + more),
                                   {.folder = folder.path()});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
}

// The file is row `row` of the reference's tensor.
void check_picture(const fs::path& file, const FileTensor& expected, size_t row) {
  CAPTURE(file.filename().string(), row);
  const FileTensor got = read_npy(file);
  REQUIRE(got.shape == std::vector<int64_t>{3, 32, 32});
  const std::vector<double> all = expected.values();
  double scale = 0;
  for (const double value : all) scale = std::max(scale, std::abs(value));
  FileTensor part = got;
  part.bytes = expected.bytes.substr(row * kPixels * 4, kPixels * 4);
  CHECK(max_distance(got, part) <= kTolerance * scale);
}

TEST_CASE("SeedsDrawWhatTheReferenceDrew") {
  const TemporaryFolder folder;
  const FileTensors io = prepare(folder, "sg2_uncond32").io;
  const std::vector<std::pair<std::string, std::string>> table = {
      {"out/img_const", "--noise-mode const"},
      {"out/img_none", "--noise-mode none"},
      {"out/img_const_psi0.7", "--trunc 0.7"},
      {"out/img_none_psi0.7", "--noise-mode none --trunc 0.7"}};
  for (const auto& [key, flags] : table) {
    CAPTURE(key);
    require_drawn(folder, "--seeds 0-3 --format npy --outdir out " + flags);
    for (size_t i = 0; i < 4; ++i)
      check_picture(folder / ("out/seed000" + std::to_string(i) + ".npy"), io.at(key), i);
  }
}

TEST_CASE("EightBitPicturesAreTheReferencesButForRounding") {
  const TemporaryFolder folder;
  const FileTensors io = prepare(folder, "sg2_uncond32").io;
  require_drawn(folder, "--seeds 0-3 --outdir out");
  const std::vector<double> expected = io.at("out/img_const").values();
  int64_t other = 0;
  for (size_t i = 0; i < 4; ++i) {
    const std::string name = "out/seed000" + std::to_string(i) + ".png";
    const Image picture = decode_image(read_file(folder / name), name);
    REQUIRE(picture.pixels.size() == kPixels);
    for (size_t k = 0; k < kPixels; ++k) {
      const double x = expected[i * kPixels + k % 3 * 1024 + k / 3];
      const double level = std::floor(std::clamp(x * 127.5 + 128, 0.0, 255.0));
      CHECK(std::abs(picture.pixels[k] - level) <= 1);
      other += picture.pixels[k] != level;
    }
  }
  CHECK(other <= 4 * static_cast<int64_t>(kPixels) / 1000);
}

TEST_CASE("LatentsOfLayersDrawWhatTheReferenceDrew") {
  const TemporaryFolder folder;
  const FileTensors io = prepare(folder, "sg2_uncond32").io;
  write_npy(folder / "ws.npy", io.at("out/ws"));  // [4, w_dim]: one row for all layers
  require_drawn(folder, "--w ws.npy --format npy --outdir rows");
  for (size_t i = 0; i < 4; ++i)
    check_picture(folder / ("rows/w000" + std::to_string(i) + ".npy"), io.at("out/img_const"), i);
  // [4, 8, w_dim]: the same as truncating the first three layers here.
  write_npy(folder / "cut.npy", io.at("out/ws_psi0.5_cutoff3"));
  require_drawn(folder, "--w cut.npy --format npy --outdir layers");
  require_drawn(folder, "--seeds 0-3 --trunc 0.5 --trunc-cutoff 3 --format npy --outdir seeds");
  for (size_t i = 0; i < 4; ++i) {
    const FileTensor seed = read_npy(folder / ("seeds/seed000" + std::to_string(i) + ".npy"));
    check_picture(folder / ("layers/w000" + std::to_string(i) + ".npy"), seed, 0);
  }
}

TEST_CASE("AMixDrawsWhatTheReferenceDrew") {
  const TemporaryFolder folder;
  const FileTensors io = prepare(folder, "sg2_uncond32").io;
  require_drawn(folder, "--mix 0:1:4-7 --format npy --outdir out -o grid.png");
  check_picture(folder / "out/0-1.npy", io.at("out/img_const_mix_0_1_at4"), 0);
  check_picture(folder / "out/0-0.npy", io.at("out/img_const"), 0);
  check_picture(folder / "out/1-1.npy", io.at("out/img_const"), 1);
  const Image grid = decode_image(read_file(folder / "grid.png"), "grid.png");
  CHECK(grid.width == 64);
  CHECK(grid.height == 64);
}

TEST_CASE("ClassesDrawWhatTheReferenceDrew") {
  const TemporaryFolder folder;
  const Reference reference = prepare(folder, "sg2_cond32");
  REQUIRE(reference.classes.size() == 4);
  for (size_t i = 0; i < 2; ++i) {
    const std::string sample = std::to_string(i);
    require_drawn(folder,
                  "--format npy --trunc 0.7 --seeds " + sample + " --class " +
                      std::to_string(reference.classes[i]) + " --outdir out");
    check_picture(
        folder / ("out/seed000" + sample + ".npy"), reference.io.at("out/img_const_psi0.7"), i);
  }
  const Outcome other =
      gantrain(words_of("generate --device cpu model.safetensors --class 10 --outdir none"),
               {.folder = folder.path()});
  CHECK(other.code == 2);
  CHECK(is_one_error_line(other.err));
  CHECK(other.err.find("0 to 9") != std::string::npos);
}

TEST_CASE("WithoutAClassAllAreDrawn") {
  const TemporaryFolder folder;
  prepare(folder, "sg2_cond32");
  require_drawn(folder, "--seeds 0,1 --outdir every -o grid.png");
  CHECK(files_like(folder / "every", "").size() == 20);
  const Image grid = decode_image(read_file(folder / "grid.png"), "grid.png");
  CHECK(grid.width == 64);
  CHECK(grid.height == 320);
  require_drawn(folder, "--seeds 1 --class 7 --outdir one");
  CHECK(read_file(folder / "one/seed0001.png") == read_file(folder / "every/seed0001-class7.png"));
}

TEST_CASE("RandomNoiseIsOfItsSeedInAnyBatch") {
  const TemporaryFolder folder;
  prepare(folder, "sg2_uncond32");
  require_drawn(folder, "--seeds 3 --noise-mode random --outdir one");
  require_drawn(folder, "--seeds 1-4 --noise-mode random --outdir many");
  require_drawn(folder, "--seeds 3 --outdir const");
  const std::string three = read_file(folder / "one/seed0003.png");
  CHECK(three == read_file(folder / "many/seed0003.png"));
  CHECK(three != read_file(folder / "const/seed0003.png"));
}

TEST_CASE("LayersOfAFileAndOfAMixAreChecked") {
  const TemporaryFolder folder;
  prepare(folder, "sg2_uncond32");
  write_npy(folder / "w.npy", {"F32", {2, 7, 64}, std::string(2 * 7 * 64 * 4, '\0')});
  const std::vector<std::tuple<std::string, int, std::string>> table = {
      {"--w w.npy", 3, "[2, 7, 64]"},
      {"--w w.npy", 3, "[N, 8, 64]"},
      {"--mix 0:1:0-8", 2, "0 to 7"},
      {"--trunc 0.5 --trunc-cutoff 9", 2, "8 layers"},
      {"--class 0", 2, "unconditional"},
      {"--level 16", 2, "stages"}};
  for (const auto& [arguments, code, named] : table) {
    CAPTURE(arguments);
    const Outcome outcome =
        gantrain(words_of("generate --device cpu model.safetensors --outdir out " + arguments),
                 {.folder = folder.path()});
    INFO(outcome.err);
    CHECK(outcome.code == code);
    CHECK(is_one_error_line(outcome.err));
    CHECK(outcome.err.find(named) != std::string::npos);
  }
  CHECK(!fs::exists(folder / "out"));
}

TEST_CASE("AWalkInWIsAnAnimation") {
  const TemporaryFolder folder;
  prepare(folder, "sg2_uncond32");
  for (const std::string space : {"w", "z"}) {
    const Outcome outcome = gantrain(
        words_of("interpolate --device cpu model.safetensors --seeds 0-2 --frames 2 --loop "
                 "--trunc 0.7 --outdir " +
                 space + " -o " + space + ".webp --space " + space),
        {.folder = folder.path()});
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK(files_like(folder / space, "frame").size() == 6);
  }
  require_drawn(folder, "--seeds 0-2 --trunc 0.7 --outdir out");
  for (const std::string space : {"w", "z"}) {
    for (int i = 0; i < 3; ++i) {
      CHECK(read_file(folder / (space + "/frame000" + std::to_string(2 * i) + ".png")) ==
            read_file(folder / ("out/seed000" + std::to_string(i) + ".png")));
    }
  }
  CHECK(read_file(folder / "w/frame0001.png") != read_file(folder / "z/frame0001.png"));
}

}  // namespace
}  // namespace gantrain
