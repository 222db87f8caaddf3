// SPDX-License-Identifier: Apache-2.0
// Pictures from model files, our own and those that somebody else wrote.
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

Outcome generate(const TemporaryFolder& folder, const std::string& more) {
  return gantrain(words_of("generate --device cpu " + more), {.folder = folder.path()});
}

void require_pictures(const TemporaryFolder& folder, const std::string& more) {
  CAPTURE(more);
  const Outcome outcome = generate(folder, more);
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(outcome.out.empty());
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> result;
  for (const fs::path& file : files_like(folder, "")) result.push_back(file.filename().string());
  return result;
}

// A generator that was not trained, of 16 pixels a side: quick to make.
fs::path untrained(const TemporaryFolder& folder) { return trained(folder, "run", "--kimg 0"); }

TEST_CASE("ASeedIsAFileAndAPicture") {
  const TemporaryFolder folder;
  const fs::path model = last_model(untrained(folder));
  require_pictures(folder, "--model run --seeds 7 --outdir one");
  CHECK(names_in(folder / "one") == Words{"seed0007.png"});
  require_pictures(folder, "--model " + model.string() + " --seeds 5-8,12345,0 --outdir many");
  CHECK(names_in(folder / "many") == Words{"seed0000.png",
                                           "seed0005.png",
                                           "seed0006.png",
                                           "seed0007.png",
                                           "seed0008.png",
                                           "seed12345.png"});
  const std::string seven = read_file(folder / "one/seed0007.png");
  CHECK(seven == read_file(folder / "many/seed0007.png"));
  CHECK(seven != read_file(folder / "many/seed0008.png"));

  require_pictures(folder, "run --seeds 7 --format npy --outdir numbers");
  REQUIRE(names_in(folder / "numbers") == Words{"seed0007.npy"});
  const FileTensor numbers = read_npy(folder / "numbers/seed0007.npy");
  REQUIRE(numbers.shape == std::vector<int64_t>{3, 16, 16});
  const std::vector<double> x = numbers.values();
  const Image picture = decode_image(seven, "seed0007.png");
  REQUIRE(x.size() == picture.pixels.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t channel = i / 256, pixel = i % 256;
    const double level = std::floor(std::clamp(x[i] * 127.5 + 128, 0.0, 255.0));
    CHECK(std::abs(picture.pixels[pixel * 3 + channel] - level) < 0.5);
  }
}

TEST_CASE("GreyPicturesKeepTheirAlpha") {
  const TemporaryFolder folder;
  const fs::path run = trained(folder, "run", "--kimg 0 --set data.channels=2");
  require_pictures(folder, "run --seeds 0-2 -o grid.png --outdir pictures");
  require_pictures(folder, "run --seeds 0-2 --format npy --outdir numbers");
  const Image grid = decode_image(read_file(folder / "grid.png"), "grid.png");
  REQUIRE(grid.channels == 2);
  const Image first = decode_image(read_file(folder / "pictures/seed0000.png"), "seed0000.png");
  REQUIRE(first.channels == 2);
  const std::vector<double> x = read_npy(folder / "numbers/seed0000.npy").values();
  REQUIRE(x.size() == first.pixels.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t channel = i / 256, pixel = i % 256;
    const double level = std::floor(std::clamp(x[i] * 127.5 + 128, 0.0, 255.0));
    CHECK(std::abs(first.pixels[pixel * 2 + channel] - level) < 0.5);
  }
  for (size_t y = 0; y < 16; ++y) {
    const auto* of_grid = grid.pixels.data() + y * 32 * 2;
    CHECK(std::equal(of_grid, of_grid + 32, first.pixels.data() + y * 32));
  }
  // The cell that is left over is clear.
  CHECK(grid.pixels.back() == 0);
  for (const fs::path& sample : files_like(run / "samples", "")) {
    CAPTURE(sample);
    CHECK(decode_image(read_file(sample), sample.string()).channels == 2);
  }
}

TEST_CASE("AGridHoldsAllPictures") {
  const TemporaryFolder folder;
  untrained(folder);
  require_pictures(folder, "run --seeds 0-4 -o grid.png --outdir single");
  const Image grid = decode_image(read_file(folder / "grid.png"), "grid.png");
  CHECK(grid.width == 48);
  CHECK(grid.height == 32);
  const Image fourth = decode_image(read_file(folder / "single/seed0003.png"), "seed0003.png");
  for (int64_t y = 0; y < 16; ++y) {
    const auto* of_grid = grid.pixels.data() + (16 + y) * 48 * 3;
    CHECK(std::equal(of_grid, of_grid + 48, fourth.pixels.data() + y * 48));
  }
}

TEST_CASE("AlphaAloneIsOfTheStageThatTheModelWasSavedIn") {
  const TemporaryFolder folder;
  trained(folder,
          "run",
          "--preset pggan-tiny --kimg 0 --set pggan.fmap_max=16 --set pggan.latent_size=16");
  const auto width = [&](const std::string& more) {
    require_pictures(folder, "run --seeds 1 -o grid.png " + more);
    return decode_image(read_file(folder / "grid.png"), "grid.png").width;
  };
  CHECK(width("") == 4);
  CHECK(width("--alpha 1") == 4);
  CHECK(width("--level 16") == 16);
  CHECK(width("--level 16 --alpha 0.5") == 16);
}

TEST_CASE("PicturesOfAFloat64ModelAreFloat32") {
  const TemporaryFolder folder;
  trained(folder, "run", "--kimg 0 --set train.dtype=float64");
  require_pictures(folder, "run --seeds 1 --format npy --outdir out");
  CHECK(read_npy(folder / "out/seed0001.npy").shape == std::vector<int64_t>{3, 16, 16});
}

// The reference networks' own names, as a stranger would save them: main.0.weight, ...
FileTensors foreign_generator() {
  const fs::path fixtures = fixtures_folder();
  FileTensors result;
  for (const auto& [name, tensor] : read_safetensors(fixtures / "dcgan_params.safetensors")) {
    if (starts_with(name, "G/")) result[name.substr(2)] = tensor;
  }
  REQUIRE(result.count("main.0.weight") == 1);
  return result;
}

TEST_CASE("AModelOfAnotherProgramDrawsWhatItDrewThere") {
  const TemporaryFolder folder;
  const fs::path fixtures = fixtures_folder();
  const FileTensors reference = read_safetensors(fixtures / "dcgan.safetensors");
  FileTensor z = reference.at("in/z");
  z.shape.resize(2);  // [4, 100, 1, 1]
  write_npy(folder / "z.npy", z);
  const FileTensor& expected = reference.at("out/G_eval");
  const FileTensors model = foreign_generator();
  write_safetensors(
      folder / "named.safetensors", model, {{"gantrain.model", R"({"recipe":"dcgan"})"}});
  write_safetensors(folder / "bare.safetensors", model, {});
  for (const std::string name : {"named", "bare"}) {
    CAPTURE(name);
    require_pictures(folder,
                     "--model " + name + ".safetensors --z z.npy --format npy --outdir " + name);
    REQUIRE(names_in(folder / name) == Words{"z0000.npy", "z0001.npy", "z0002.npy", "z0003.npy"});
    std::string all;
    for (const fs::path& file : files_like(folder / name, "z")) {
      const FileTensor picture = read_npy(file);
      REQUIRE(picture.shape == std::vector<int64_t>{3, 64, 64});
      all += picture.bytes;
    }
    const std::vector<double> values = expected.values();
    const double scale =
        std::abs(*std::max_element(values.begin(), values.end(), [](double a, double b) {
          return std::abs(a) < std::abs(b);
        }));
    CHECK(max_distance({"F32", {}, all}, expected) <= 1e-5 * scale);
  }
}

TEST_CASE("AModelThatDoesNotFitIsRefusedByItsTensor") {
  const TemporaryFolder folder;
  FileTensors model = foreign_generator();
  const FileTensor taken = model.extract("main.3.weight").mapped();
  write_safetensors(folder / "lacks.safetensors", model, {});
  model["main.3.weight"] = taken;
  model["main.3.weight"].shape[0] /= 2;
  model["main.3.weight"].bytes.resize(taken.bytes.size() / 2);
  write_safetensors(folder / "shape.safetensors", model, {});
  for (const std::string name : {"lacks", "shape"}) {
    const Outcome outcome = generate(folder, name + ".safetensors --seeds 1 --outdir out");
    INFO(outcome.err);
    CHECK(outcome.code == 3);
    CHECK(is_one_error_line(outcome.err));
    CHECK(outcome.err.find(name + ".safetensors") != std::string::npos);
    CHECK(outcome.err.find("main.3.weight") != std::string::npos);
  }
}

TEST_CASE("GenerateNamesWhatItCannotUse") {
  const TemporaryFolder folder;
  const fs::path run = untrained(folder);
  const std::string whole = read_file(last_model(run));
  fs::create_directory(folder / "empty");
  write_file(folder / "text.txt", "no model\n");
  write_file(folder / "half.safetensors", whole.substr(0, whole.size() / 2));
  write_safetensors(folder / "other.safetensors", {{"a", {"F32", {1}, "abcd"}}}, {});
  write_safetensors(folder / "recipe.safetensors",
                    {{"a", {"F32", {1}, "abcd"}}},
                    {{"gantrain.model", R"({"recipe":"dcgam"})"}});
  write_npy(folder / "z.npy", {"F32", {2, 3}, std::string(24, '\0')});
  write_file(folder / "text.npy", "no numbers\n");
  const std::string out = " --seeds 1 --outdir out";
  const std::vector<std::tuple<std::string, int, std::string>> table = {
      {"--model none.safetensors" + out, 3, "none.safetensors"},
      {"--model empty" + out, 3, "empty"},
      {"--model text.txt" + out, 3, "text.txt"},
      {"--model half.safetensors" + out, 3, "half.safetensors"},
      {"--model other.safetensors" + out, 3, "other.safetensors"},
      {"--model recipe.safetensors" + out, 3, "dcgam"},
      {"--model run --z z.npy --outdir out", 3, "z.npy"},
      {"--model run --z text.npy --outdir out", 3, "text.npy"},
      {"--model run --z none.npy --outdir out", 3, "none.npy"},
      {"--model run --seeds x --outdir out", 2, "--seeds x"},
      {"--model run --seeds 3-1 --outdir out", 2, "--seeds 3-1"},
      {"--model run --seeds -1 --outdir out", 2, "--seeds"},
      {"--model run --seeds 4294967296 --outdir out", 2, "4294967296"},
      {"--model run --seeds 1 --z z.npy --outdir out", 2, "--z"},
      {"--model run --seeds 1 --outdir out --format gif", 2, "gif"},
      {"--model run --seeds 1", 2, "--outdir"},
      {"--seeds 1 --outdir out", 2, "--model"},
      {"--model run --seeds 1 --outdir text.txt", 8, "text.txt"},
      {"--model run --seeds 1 -o none/grid.png", 8, "none/grid.png"},
      {"--model run none.safetensors" + out, 2, "none.safetensors"},
      {"--model run --noise-mode constt" + out, 2, "did you mean const?"},
      {"--model run --trunc x" + out, 2, "--trunc x"},
      {"--model run --trunc nan" + out, 2, "--trunc nan"},
      {"--model run --trunc-cutoff 3" + out, 2, "--trunc PSI"},
      {"--model run --class -1" + out, 2, "--class -1"},
      {"--model run --channels 3 --seeds 1 -o grid.png", 2, "--channels = 3"},
      {"--model run --alpha 1.5" + out, 2, "--alpha 1.5"},
      {"--model run --level 0" + out, 2, "--level 0"},
      {"--model run --mix 1:2 --outdir out", 2, "--mix 1:2"},
      {"--model run --mix 1:2:0-6 --seeds 3 --outdir out", 2, "--seeds and --mix"},
      {"--model run --truncc 1" + out, 2, "did you mean --trunc"},
      // What this model, a DCGAN, has not.
      {"--model run --class 1" + out, 2, "labels"},
      {"--model run --trunc 0.7" + out, 2, "StyleGAN"},
      {"--model run --noise-mode const" + out, 2, "StyleGAN"},
      {"--model run --level 8" + out, 2, "PGGAN"},
      {"--model run --alpha 0.5" + out, 2, "PGGAN"},
      {"--model run --mix 1:2:0-6 --outdir out", 2, "StyleGAN"},
      {"--model run --w z.npy --outdir out", 2, "StyleGAN"}};
  for (const auto& [arguments, code, named] : table) {
    CAPTURE(arguments);
    const Outcome outcome = generate(folder, arguments);
    INFO(outcome.err);
    CHECK(outcome.code == code);
    CHECK(is_one_error_line(outcome.err));
    CHECK(outcome.err.find(named) != std::string::npos);
    CHECK(outcome.seconds < 60);
  }
  CHECK(!fs::exists(folder / "out"));
}

}  // namespace
}  // namespace gantrain
