// SPDX-License-Identifier: Apache-2.0
// Files that `generate` and `interpolate` leave, with a generator whose every input shows.
#include "draw/draw.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "config/schema.h"
#include "core/tensor_files.h"
#include "core/torch.h"
#include "draw/painter.h"
#include "report/grid.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "support/toy_generator.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"

namespace gantrain {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kSide = 8;

// A request with these keys of its message; the others as they are by default.
template <class Request>
Request request(const TemporaryFolder& folder, const std::string& more) {
  set_log({.console = Level::kError});
  Json message = message_of(Request());
  message["model"] = "model.safetensors";
  message["outdir"] = (folder / "out").string();
  message.update(Json::parse("{" + more + "}"));
  return message_from<Request>(message);
}

GenerateRequest pictures(const TemporaryFolder& folder, const std::string& more) {
  return request<GenerateRequest>(folder, more);
}

InterpolateRequest walk(const TemporaryFolder& folder, const std::string& more) {
  return request<InterpolateRequest>(folder, more);
}

using Words = std::vector<std::string>;

Words names_in(const fs::path& folder) {
  Words result;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    result.push_back(entry.path().filename().string());
  std::sort(result.begin(), result.end());
  return result;
}

Image png(const fs::path& path) { return decode_image(read_file(path), path.string()); }

// Tile (column, row) of a grid.
Image cell(const Image& grid, int64_t column, int64_t row) {
  Image result{kSide, kSide, grid.channels, {}};
  for (int64_t y = 0; y < kSide; ++y) {
    const auto* first =
        grid.pixels.data() + ((row * kSide + y) * grid.width + column * kSide) * grid.channels;
    result.pixels.insert(result.pixels.end(), first, first + kSide * grid.channels);
  }
  return result;
}

// The picture of w whose layers come from these seeds.
Image picture_of(const std::vector<int64_t>& seeds) {
  ToyGenerator generator;
  std::vector<at::Tensor> layers;
  for (size_t l = 0; l < seeds.size(); ++l) {
    const at::Tensor z = latents_of_seeds({seeds[l]}, 4);
    layers.push_back(generator.map(z, {}, {})[0][static_cast<int64_t>(l)]);
  }
  return to_image(generator.synthesize(torch::stack(layers).unsqueeze(0), {})[0]);
}

Image picture_of(int64_t seed) { return picture_of({seed, seed, seed}); }

int code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& e) {
    return static_cast<int>(e.code());
  }
  return 0;
}

}  // namespace

TEST_CASE("PicturesOfStylesFilesAreThoseOfTheirSeeds") {
  const TemporaryFolder folder;
  ToyGenerator generator;
  draw_pictures(generator, pictures(folder, R"("seeds": "3,5")"));
  const at::Tensor z = latents_of_seeds({3, 5}, 4);
  save_npy(folder / "w.npy", generator.map(z, {}, {}));
  save_npy(folder / "rows.npy", generator.map(z, {}, {}).select(1, 0));
  for (const std::string name : {"w.npy", "rows.npy"}) {
    GenerateRequest of_styles = pictures(folder, "");
    of_styles.w = (folder / name).string();
    draw_pictures(generator, of_styles);
    CHECK(read_file(folder / "out/w0000.png") == read_file(folder / "out/seed0003.png"));
    CHECK(read_file(folder / "out/w0001.png") == read_file(folder / "out/seed0005.png"));
  }
}

TEST_CASE("ASeedIsTheSamePictureBesideAnyOther") {
  const TemporaryFolder folder;
  ToyGenerator generator;
  const std::string random = R"(, "noise_mode": "random")";
  draw_pictures(generator, pictures(folder, R"("seeds": "3")" + random));
  const std::string alone = read_file(folder / "out/seed0003.png");
  draw_pictures(generator, pictures(folder, R"("seeds": "9,3,4")" + random));
  CHECK(read_file(folder / "out/seed0003.png") == alone);
  draw_pictures(generator, pictures(folder, R"("seeds": "3", "noise_mode": "none")"));
  CHECK(read_file(folder / "out/seed0003.png") != alone);
}

TEST_CASE("ACellOfAMixIsItsRowWithLayersOfItsColumn") {
  const TemporaryFolder folder;
  ToyGenerator generator;
  draw_mix(
      generator,
      pictures(folder, R"("mix": {"rows": [85, 100], "columns": [55, 85, 7], "layers": [0, 2]})"));
  CHECK(names_in(folder / "out") == Words{"100-100.png",
                                          "100-55.png",
                                          "100-7.png",
                                          "100-85.png",
                                          "55-55.png",
                                          "7-7.png",
                                          "85-55.png",
                                          "85-7.png",
                                          "85-85.png",
                                          "grid.png"});
  const Image grid = png(folder / "out/grid.png");
  REQUIRE(grid.width == 4 * kSide);
  REQUIRE(grid.height == 3 * kSide);
  CHECK(cell(grid, 0, 0).pixels == std::vector<uint8_t>(kSide * kSide * 3, 0));
  const std::vector<int64_t> rows = {85, 100}, columns = {55, 85, 7};
  for (int64_t c = 0; c < 3; ++c) {
    const int64_t column = columns[static_cast<size_t>(c)];
    CHECK(cell(grid, c + 1, 0).pixels == picture_of(column).pixels);
    for (int64_t r = 0; r < 2; ++r) {
      const int64_t row = rows[static_cast<size_t>(r)];
      CAPTURE(row, column);
      CHECK(cell(grid, 0, r + 1).pixels == picture_of(row).pixels);
      const Image expected = picture_of({column, row, column});
      CHECK(cell(grid, c + 1, r + 1).pixels == expected.pixels);
      CHECK(png(folder / ("out/" + std::to_string(row) + "-" + std::to_string(column) + ".png"))
                .pixels == expected.pixels);
    }
  }
}

TEST_CASE("AMixIsTruncatedLikeASeed") {
  const TemporaryFolder folder;
  ToyGenerator generator;
  draw_mix(generator,
           pictures(folder,
                    R"("trunc": 0.5, "mix": {"rows": [1], "columns": [2], "layers": [0, 1, 2]})"));
  draw_pictures(generator, pictures(folder, R"("trunc": 0.5, "seeds": "1,2")"));
  CHECK(read_file(folder / "out/1-1.png") == read_file(folder / "out/seed0001.png"));
  CHECK(read_file(folder / "out/1-2.png") == read_file(folder / "out/seed0002.png"));
}

TEST_CASE("StylesAreAskedOfModelsThatHaveThem") {
  const TemporaryFolder folder;
  ToyGenerator plain({.num_ws = 0});
  ToyGenerator styled;
  const std::string mix = R"("mix": {"rows": [1], "columns": [2], "layers": [3]})";
  const std::string path =
      R"("seeds": "1,2", "columns": 1, "rows": 1, "frames": 1, "loop": false, "space": "w")";
  CHECK(code_of([&] { draw_mix(plain, pictures(folder, mix)); }) == 2);
  CHECK(code_of([&] { draw_mix(styled, pictures(folder, mix)); }) == 2);  // layer 3 of 0 to 2
  CHECK(code_of([&] { draw_pictures(plain, pictures(folder, R"("w": "w.npy")")); }) == 2);
  CHECK(code_of([&] { draw_walk(plain, walk(folder, path)); }) == 2);
  CHECK(!fs::exists(folder / "out"));
  CHECK(code_of([&] { draw_walk(styled, walk(folder, path)); }) == 0);
}

TEST_CASE("AWalkMeetsItsSeedsAndMovesEvenlyBetweenThem") {
  const TemporaryFolder folder;
  ToyGenerator generator;
  const std::string space = GENERATE(as<std::string>{}, "z", "w", "auto");
  CAPTURE(space);
  draw_walk(generator,
            walk(folder,
                 R"("seeds": "4,2,9", "columns": 1, "rows": 1, "frames": 2, "loop": false,)"
                 R"("space": ")" +
                     space + "\""));
  CHECK(names_in(folder / "out") ==
        Words{"frame0000.png", "frame0001.png", "frame0002.png", "frame0003.png", "frame0004.png"});
  CHECK(png(folder / "out/frame0000.png").pixels == picture_of(4).pixels);
  CHECK(png(folder / "out/frame0002.png").pixels == picture_of(2).pixels);
  CHECK(png(folder / "out/frame0004.png").pixels == picture_of(9).pixels);
  const at::Tensor z = latents_of_seeds({4, 2}, 4);
  const at::Tensor ws = generator.map(z, {}, {});
  const at::Tensor half = space == "z"
                              ? generator.images(spherical(z[0], z[1], 0.5).unsqueeze(0), {}, {})
                              : generator.synthesize(linear(ws[0], ws[1], 0.5).unsqueeze(0), {});
  CHECK(png(folder / "out/frame0001.png").pixels == to_image(half[0]).pixels);
}

TEST_CASE("TracksShareTheSeedsOutAndWalkSideBySide") {
  const TemporaryFolder folder;
  ToyGenerator generator({.num_ws = 0});
  draw_walk(generator,
            walk(folder,
                 R"("seeds": "0,1,2,3,4,5,6,7", "columns": 2, "rows": 2, "frames": 1,)"
                 R"("loop": true, "space": "auto")"));
  REQUIRE(names_in(folder / "out") == Words{"frame0000.png", "frame0001.png"});
  for (int64_t frame = 0; frame < 2; ++frame) {
    const Image grid = png(folder / ("out/frame000" + std::to_string(frame) + ".png"));
    REQUIRE(grid.width == 2 * kSide);
    for (int64_t track = 0; track < 4; ++track) {
      CAPTURE(frame, track);
      CHECK(cell(grid, track % 2, track / 2).pixels == picture_of(2 * track + frame).pixels);
    }
  }
}

TEST_CASE("AClassIsDrawnAllTheWay") {
  const TemporaryFolder folder;
  ToyGenerator generator({.classes = 3});
  const std::string path =
      R"("seeds": "1,2", "columns": 1, "rows": 1, "frames": 1, "loop": false, "space": "w")";
  draw_walk(generator, walk(folder, path + R"(, "class": "2")"));
  draw_pictures(generator, pictures(folder, R"("seeds": "1,2", "class": "2")"));
  CHECK(read_file(folder / "out/frame0001.png") == read_file(folder / "out/seed0002.png"));
}

TEST_CASE("EverySeedIsDrawnInEveryClassAndTheGridIsSortedByClass") {
  const TemporaryFolder folder;
  ToyGenerator generator({.classes = 3});
  const ClassTable table = {{"circle", 1}, {"square", 1}, {"star", 1}};
  const std::string asked = GENERATE(as<std::string>{}, "", "all", "0-2", "circle,1,star");
  CAPTURE(asked);
  GenerateRequest several = pictures(folder, R"("seeds": "4,9", "class": ")" + asked + "\"");
  several.grid = (folder / "grid.png").string();
  draw_pictures(generator, several, table);
  CHECK(names_in(folder / "out") == Words{"seed0004-class0.png",
                                          "seed0004-class1.png",
                                          "seed0004-class2.png",
                                          "seed0009-class0.png",
                                          "seed0009-class1.png",
                                          "seed0009-class2.png"});
  const Image grid = png(folder / "grid.png");
  REQUIRE(grid.width == 2 * kSide);
  REQUIRE(grid.height == 3 * kSide);
  for (int64_t label = 0; label < 3; ++label) {
    const std::string suffix = "-class" + std::to_string(label) + ".png";
    CHECK(cell(grid, 0, label).pixels == png(folder / ("out/seed0004" + suffix)).pixels);
    CHECK(cell(grid, 1, label).pixels == png(folder / ("out/seed0009" + suffix)).pixels);
    draw_pictures(
        generator,
        pictures(folder,
                 R"("seeds": "4", "class": ")" + table[static_cast<size_t>(label)].name + "\""),
        table);
    CHECK(cell(grid, 0, label).pixels == png(folder / "out/seed0004.png").pixels);
    fs::remove(folder / "out/seed0004.png");
  }
}

TEST_CASE("AGridThatIsTooLargeIsRefusedAtItsFirstPicture") {
  const TemporaryFolder folder;
  ToyGenerator generator;
  std::string seeds = "0-1000000";
  for (int i = 1; i < 12; ++i) seeds += ",0-1000000";
  GenerateRequest many = pictures(folder, R"("seeds": ")" + seeds + "\"");
  many.grid = (folder / "grid.png").string();
  CHECK(code_of([&] { draw_pictures(generator, many); }) == 2);
  CHECK(!fs::exists(folder / "grid.png"));
}

TEST_CASE("AMixOfSeveralClassesIsABlockForEach") {
  const TemporaryFolder folder;
  ToyGenerator generator({.classes = 2});
  const std::string mix = R"("mix": {"rows": [1], "columns": [2], "layers": [0]})";
  draw_mix(generator, pictures(folder, mix + R"(, "class": "1")"));
  const std::string alone = read_file(folder / "out/1-2.png");
  draw_mix(generator, pictures(folder, mix));
  CHECK(read_file(folder / "out/1-2-class1.png") == alone);
  CHECK(read_file(folder / "out/1-2-class0.png") != alone);
  const Image grid = png(folder / "out/grid.png");
  REQUIRE(grid.height == 4 * kSide);
  CHECK(cell(grid, 1, 3).pixels == png(folder / "out/1-2-class1.png").pixels);
}

TEST_CASE("AWalkOfSeveralClassesHasATrackForEach") {
  const TemporaryFolder folder;
  ToyGenerator generator({.classes = 2});
  const std::string path =
      R"("seeds": "1,2", "columns": 1, "rows": 1, "frames": 1, "loop": false, "space": "z")";
  draw_walk(generator, walk(folder, path + R"(, "class": "1")"));
  const Image alone = png(folder / "out/frame0000.png");
  draw_walk(generator, walk(folder, path));
  const Image both = png(folder / "out/frame0000.png");
  REQUIRE(both.height == 2 * kSide);
  CHECK(cell(both, 0, 1).pixels == alone.pixels);
}

TEST_CASE("APictureIsAFileOfTheFormatAskedFor") {
  const TemporaryFolder folder;
  const at::Tensor picture = torch::linspace(-1, 1, 48).view({3, 4, 4});
  PictureFolder(folder / "made", PictureFormat::kPng).write("a", picture);
  PictureFolder(folder / "made", PictureFormat::kNpy).write("a", picture);
  const Image png = decode_image(read_file(folder / "made/a.png"), "a.png");
  CHECK(png.pixels == to_image(picture).pixels);
  CHECK(load_npy(folder / "made/a.npy").equal(picture));
}

namespace {

// What becomes of a process that does this.
template <class Action>
int status_of(const Action& action) {
  const pid_t pid = fork();
  if (pid == 0) {
    for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, SIG_DFL);  // not the test's own
    action();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return status;
}

}  // namespace

TEST_CASE("ASignalEndsAJobBetweenTwoSteps") {
  const TemporaryFolder folder;
  for (const int signal : {SIGINT, SIGTERM}) {
    CAPTURE(signal);
    const int status = status_of([&] {
      Job job(3, "pictures");
      raise(signal);
      write_file(folder / "first", "whole");
      job.step();
      write_file(folder / "second", "whole");
    });
    REQUIRE(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signal);
    CHECK(std::filesystem::exists(folder / "first"));
    CHECK(!std::filesystem::exists(folder / "second"));
  }
}

TEST_CASE("ASignalAfterTheLastStepEndsTheProcessWithTheJob") {
  const int status = status_of([] {
    Job job(1, "pictures");
    job.step();
    raise(SIGINT);
  });
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGINT);
}

TEST_CASE("AnIgnoredHangupStaysIgnored") {
  const int status = status_of([] {
    ::signal(SIGHUP, SIG_IGN);
    Job job(2, "pictures");
    raise(SIGHUP);
    job.step();
    job.step();
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace gantrain
