// SPDX-License-Identifier: Apache-2.0
// Animations from model files.
#include <webp/demux.h>

#include <algorithm>
#include <csignal>
#include <numeric>

#include "image/image.h"
#include "support/catch.h"
#include "support/tiny.h"
#include "util/file.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

Outcome interpolate(const TemporaryFolder& folder,
                    const std::string& more,
                    const std::map<std::string, std::string>& environment = {}) {
  return gantrain(words_of("interpolate --device cpu " + more),
                  {.environment = environment, .folder = folder.path()});
}

void require_film(const TemporaryFolder& folder,
                  const std::string& more,
                  const std::map<std::string, std::string>& environment = {}) {
  CAPTURE(more);
  const Outcome outcome = interpolate(folder, more, environment);
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.find("next    gantrain generate --model run ") != std::string::npos);
}

void prepare_untrained(const TemporaryFolder& folder) { trained(folder, "run", "--kimg 0"); }

struct Film {
  int64_t width = 0;
  int64_t height = 0;
  std::vector<int> durations;                // milliseconds
  std::vector<std::vector<uint8_t>> frames;  // RGBA
};

Film play(const fs::path& path) {
  const std::string file = read_file(path);
  const WebPData data = {reinterpret_cast<const uint8_t*>(file.data()), file.size()};
  WebPAnimDecoder* decoder = WebPAnimDecoderNew(&data, nullptr);
  REQUIRE(decoder != nullptr);
  WebPAnimInfo info;
  REQUIRE(WebPAnimDecoderGetInfo(decoder, &info));
  Film film{info.canvas_width, info.canvas_height, {}, {}};
  int before = 0;
  while (WebPAnimDecoderHasMoreFrames(decoder)) {
    uint8_t* pixels = nullptr;
    int end = 0;
    REQUIRE(WebPAnimDecoderGetNext(decoder, &pixels, &end));
    film.durations.push_back(end - before);
    film.frames.emplace_back(pixels, pixels + film.width * film.height * 4);
    before = end;
  }
  WebPAnimDecoderDelete(decoder);
  return film;
}

// A program called ffmpeg that is found first; `body` has the file to be written in $out.
std::map<std::string, std::string> with_ffmpeg(const TemporaryFolder& folder,
                                               const std::string& body) {
  fs::create_directories(folder / "bin");
  write_file(folder / "bin/ffmpeg", "#!/bin/sh\nfor out; do :; done\n" + body + "\n");
  fs::permissions(folder / "bin/ffmpeg", fs::perms::owner_all);
  return {{"PATH", (folder / "bin").string() + ":/usr/bin:/bin"}};
}

TEST_CASE("AWalkIsAnAnimationOfTheSeedsPictures") {
  const TemporaryFolder folder;
  prepare_untrained(folder);
  require_film(folder,
               "--model run --seeds 5,9 --frames 3 --fps 10 --quality 100 -o walk.webp "
               "--outdir frames");
  const Film film = play(folder / "walk.webp");
  CHECK(film.width == 16);
  CHECK(film.height == 16);
  CHECK(film.durations == std::vector<int>{100, 100, 100, 100});
  const auto generated = gantrain(words_of("generate --device cpu run --seeds 5,9 --outdir out"),
                                  {.folder = folder.path()});
  REQUIRE(generated.code == 0);
  CHECK(read_file(folder / "frames/frame0000.png") == read_file(folder / "out/seed0005.png"));
  CHECK(read_file(folder / "frames/frame0003.png") == read_file(folder / "out/seed0009.png"));
  for (size_t i = 0; i < 4; ++i) {
    const fs::path path = folder / ("frames/frame000" + std::to_string(i) + ".png");
    const Image frame = decode_image(read_file(path), path.string());
    CAPTURE(i);
    for (size_t pixel = 0; pixel < 256; ++pixel) {
      const auto* of_png = frame.pixels.data() + 3 * pixel;
      CHECK(std::equal(of_png, of_png + 3, film.frames[i].data() + 4 * pixel));
    }
  }
}

TEST_CASE("AWalkOfGreyPicturesKeepsTheirAlpha") {
  const TemporaryFolder folder;
  trained(folder, "run", "--kimg 0 --set data.channels=2");
  require_film(folder,
               "--model run --seeds 5,9 --frames 2 --quality 100 -o walk.webp --outdir frames");
  const Film film = play(folder / "walk.webp");
  REQUIRE(film.frames.size() == 3);
  size_t translucent = 0;
  for (size_t i = 0; i < 3; ++i) {
    const fs::path path = folder / ("frames/frame000" + std::to_string(i) + ".png");
    const Image frame = decode_image(read_file(path), path.string());
    REQUIRE(frame.channels == 2);
    for (size_t pixel = 0; pixel < 256; ++pixel) {
      const uint8_t grey = frame.pixels[2 * pixel], alpha = frame.pixels[2 * pixel + 1];
      const auto* shown = film.frames[i].data() + 4 * pixel;
      CHECK(shown[3] == alpha);
      CHECK((alpha == 0 || std::equal(shown, shown + 3, std::vector(3, grey).data())));
      translucent += alpha < 255 ? 1 : 0;
    }
  }
  CHECK(translucent > 0);
  const Outcome shorter = interpolate(folder, "run --seeds 5,9 --frames 1 --outdir frames");
  CHECK(holds(shorter.err, "frames: also holds 1 file of an earlier command: frame0002.png"));
}

TEST_CASE("ALoopOfTracksHasNoEnd") {
  const TemporaryFolder folder;
  prepare_untrained(folder);
  require_film(folder, "run --seeds 0-5 --grid 3x1 --frames 4 --loop -o walk.webp");
  const Film film = play(folder / "walk.webp");
  CHECK(film.width == 48);
  // 8 frames of 1/30 s; equal ones in a row are one longer frame.
  const int total = std::accumulate(film.durations.begin(), film.durations.end(), 0);
  CHECK(total >= 8 * 1000 / 30);
  CHECK(total <= 8 * 1000 / 30 + 1);
}

TEST_CASE("FfmpegMakesAnMp4OfTheFrames") {
  const TemporaryFolder folder;
  prepare_untrained(folder);
  require_film(folder, "run --seeds 0,1 --frames 3 -o walk.mp4", with_ffmpeg(folder, "cat > $out"));
  CHECK(read_file(folder / "walk.mp4").size() == 4 * 16 * 16 * 3);
}

TEST_CASE("AFailedFfmpegLeavesNothingButItsReason") {
  const TemporaryFolder folder;
  prepare_untrained(folder);
  const auto failing = with_ffmpeg(folder, "cat > /dev/null; echo no such codec >&2; exit 1");
  const Outcome failed = interpolate(folder, "run --seeds 0,1 --frames 3 -o walk.mp4", failing);
  INFO(failed.err);
  CHECK(failed.code == 4);
  CHECK(is_one_error_line(failed.err));
  CHECK(failed.err.find("no such codec") != std::string::npos);
  const Outcome missing =
      interpolate(folder, "run --seeds 0,1 -o walk.mp4", {{"PATH", (folder / "none").string()}});
  INFO(missing.err);
  CHECK(missing.code == 4);
  CHECK(is_one_error_line(missing.err));
  CHECK(missing.err.find("ffmpeg") != std::string::npos);
  CHECK(missing.err.find("walk.webp") != std::string::npos);
  CHECK(missing.seconds < 60);
  CHECK(files_like(folder.path(), "walk").empty());
}

TEST_CASE("CtrlCLeavesNoHalfWrittenFilm") {
  const TemporaryFolder folder;
  prepare_untrained(folder);
  Command command(words_of("interpolate --device cpu run --seeds 0-9 --frames 10000 -o walk.webp "
                           "--outdir frames"),
                  {.folder = folder.path()});
  REQUIRE(eventually([&] { return fs::exists(folder / "frames/frame00003.png"); }, 60));
  command.signal(SIGINT);
  const Outcome outcome = command.wait();
  CHECK(outcome.code == 130);
  CHECK(outcome.left.empty());
  CHECK(!fs::exists(folder / "walk.webp"));
  for (const fs::path& file : files_like(folder / "frames", "")) {
    CHECK(file.extension() == ".png");
    CHECK_NOTHROW(decode_image(read_file(file), file.string()));
  }
}

TEST_CASE("InterpolateNamesWhatItCannotUse") {
  const TemporaryFolder folder;
  prepare_untrained(folder);
  fs::create_directory(folder / "dir.webp");
  const std::string out = " -o walk.webp";
  const std::vector<std::tuple<std::string, int, std::string>> table = {
      {"run", 2, "-o NAME.webp"},
      {"run -o walk.gif", 2, "walk.gif"},
      {"run -o none/walk.webp", 8, "none"},
      {"run -o dir.webp", 2, "dir.webp: a folder; name a file"},
      {"--seeds 0,1" + out, 2, "--model"},
      {"none.safetensors" + out, 3, "none.safetensors"},
      {"run --seeds 4" + out, 2, "at least 2"},
      {"run --seeds 0-4 --grid 2x1" + out, 2, "5 seeds cannot be shared out among 2 tracks"},
      {"run --seeds 0-3 --grid 4x1" + out, 2, "at least 2"},
      {"run --grid 2" + out, 2, "--grid 2"},
      {"run --frames 0" + out, 2, "--frames 0"},
      {"run --fps 0" + out, 2, "--fps 0"},
      {"run --quality 101" + out, 2, "--quality 101"},
      {"run --quality 90 --outdir frames", 2, "--quality 90"},
      {"run --space y" + out, 2, "--space y"},
      {"run --space w" + out, 2, "StyleGAN"},
      {"run --trunc 0.5" + out, 2, "StyleGAN"},
      {"run --class 0" + out, 2, "labels"},
      {"run --outdir run/STATUS", 8, "STATUS"}};
  for (const auto& [arguments, code, named] : table) {
    CAPTURE(arguments);
    const Outcome outcome = interpolate(folder, arguments);
    INFO(outcome.err);
    CHECK(outcome.code == code);
    CHECK(is_one_error_line(outcome.err));
    CHECK(outcome.err.find(named) != std::string::npos);
    CHECK(outcome.seconds < 60);
  }
  CHECK(files_like(folder.path(), "walk").empty());
}

}  // namespace
}  // namespace gantrain
