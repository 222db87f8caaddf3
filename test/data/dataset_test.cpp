// SPDX-License-Identifier: Apache-2.0
#include "data/pictures/dataset.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>

#include "data/picture_files.h"
#include "image/resize.h"
#include "support/catch.h"
#include "support/pictures.h"
#include "support/stopwatch.h"
#include "util/error.h"
#include "util/log.h"

namespace gantrain {

TEST_CASE("PicturesComeInOrderOfTheirPaths") {
  const Scratch scratch;
  const std::string path = lay_out(scratch,
                                   {{"b.png", one_color(2)},
                                    {"a/z.png", one_color(1)},
                                    {"c.webp", png(16, 16, 3)},
                                    {".hidden.png", one_color(9)},
                                    {".trash/x.png", one_color(9)},
                                    {"notes.txt", "hello"},
                                    {"__MACOSX/b.png", "junk"},
                                    {"a/Upper.PNG", one_color(0)}},
                                   any_kind());
  DataOptions options = at(path);
  options.channels = 1;
  const auto dataset = open_dataset(options);
  const auto all = values(*dataset);
  CHECK(std::vector<int>(all.begin(), all.begin() + 3) == std::vector<int>{0, 1, 2});
  CHECK(dataset->size() == 4);
  CHECK(dataset->classes() == 0);
  CHECK(contains(dataset->description(), "1 .txt ignored"));
}

TEST_CASE("PicturesOfAnyKindAndSizeBecomeSquare") {
  const Scratch scratch;
  const std::string path = lay_out(scratch,
                                   {{"a.png", png(50, 20, 1)},
                                    {"b.jpg", encode_jpeg(test_picture(7, 90, 3))},
                                    {"c.webp", encode_webp(test_picture(33, 33, 4))},
                                    {"d.png", png(16, 16, 2)}},
                                   any_kind());
  DataOptions options = at(path);
  options.fit = GENERATE(Fit::kCrop, Fit::kPad, Fit::kStretch);
  const auto dataset = open_dataset(options);
  CHECK(dataset->channels() == 3);
  for (int64_t i = 0; i < 4; ++i) {
    const Image image = dataset->load(i);
    CHECK(image.width == 16);
    CHECK(image.height == 16);
    CHECK(image.channels == 3);
    CHECK(image.pixels.size() == 16 * 16 * 3);
  }
}

TEST_CASE("PictureOfTheRightSizeKeepsItsPixels") {
  const Scratch scratch;
  const Image image = test_picture(16, 16, 3);
  scratch.write("a.png", encode_png(image));
  DataOptions options = at(scratch.path());
  options.fit = GENERATE(Fit::kCrop, Fit::kPad, Fit::kStretch);
  CHECK(open_dataset(options)->load(0).pixels == image.pixels);
}

TEST_CASE("CropTakesTheMiddleAndPadKeepsAll") {
  const Scratch scratch;
  Image wide{.width = 48, .height = 16, .channels = 1};
  for (int i = 0; i < 16 * 48; ++i) {
    const int column = i % 48;
    wide.pixels.push_back(column < 16 ? 0 : column < 32 ? 100 : 200);
  }
  scratch.write("a.png", encode_png(wide));
  DataOptions options = at(scratch.path());
  CHECK(open_dataset(options)->load(0).pixels == std::vector<uint8_t>(256, 100));
  options.fit = Fit::kPad;
  options.filter = Filter::kBox;
  const Image padded = open_dataset(options)->load(0);
  CHECK(padded.pixels[0] == 255);
  CHECK(padded.pixels[7 * 16 + 1] == 0);
  CHECK(padded.pixels[7 * 16 + 8] == 100);
  CHECK(padded.pixels[7 * 16 + 14] == 200);
}

TEST_CASE("GreyPicturesStayGreyUnlessOneHasColor") {
  const Scratch scratch;
  const std::string kind = any_kind();
  Files files = {{"a.png", png(16, 16, 1)}, {"b.png", png(16, 16, 2)}};
  CHECK(open_dataset(at(lay_out(scratch, files, kind)))->channels() == 1);
  const Scratch mixed;
  files.push_back({"c.png", png(16, 16, 3)});
  CHECK(open_dataset(at(lay_out(mixed, files, kind)))->channels() == 3);
}

TEST_CASE("GreyBySomePicturesIsSaidAndTheFirstColourThatIsLostIsNamed") {
  const Scratch scratch;
  Files files;
  for (int i = 0; i <= 2000; ++i)
    files.push_back({fmt::format("{:04}.png", i), png(8, 8, i == 2000 ? 3 : 1)});
  DataOptions options = at(lay_out(scratch, files, "stored"), 8);
  set_log({.console = Level::kError});
  keep_log_lines();
  const auto dataset = open_dataset(options);
  CHECK(dataset->channels() == 1);
  CHECK(contains(dataset->description(),
                 " 2001 pictures, 8x8x1, grey as the 2000 looked at are (data.channels=3 keeps "
                 "colour)"));
  dataset->load(0);
  CHECK(take_kept_lines().empty());
  dataset->load(2000);
  dataset->load(2000);
  const std::vector<std::string> lines = take_kept_lines();
  set_log({});
  REQUIRE(lines.size() == 1);
  CHECK(contains(lines[0], "2000.png: a picture in colour becomes grey"));
  options.channels = 1;
  CHECK_FALSE(contains(open_dataset(options)->description(), "looked at"));
  options.channels = {};
  options.verify = Verify::kAll;
  CHECK(open_dataset(options)->channels() == 3);
}

TEST_CASE("TransparencyLiesOverWhiteUnlessFourChannelsAreWanted") {
  const Scratch scratch;
  Image clear{.width = 16, .height = 16, .channels = 4};
  clear.pixels.assign(16 * 16 * 4, 0);
  scratch.write("a.png", encode_png(clear));
  DataOptions options = at(scratch.path());
  CHECK(open_dataset(options)->load(0).pixels == std::vector<uint8_t>(16 * 16 * 3, 255));
  options.channels = 4;
  CHECK(open_dataset(options)->load(0).pixels == clear.pixels);
}

TEST_CASE("WhatIsNoDataIsNamedWithTheWayOut") {
  const Scratch scratch;
  scratch.write("notes.txt", "just text");
  scratch.write("only.png", one_color(1));
  scratch.write("texts/readme.md", "text");
  std::filesystem::create_directory(scratch.path("empty"));
  const std::string zip = write_zip({{"a.png", one_color(1)}, {"b.png", one_color(2)}}, true);
  scratch.write("cut.zip", std::string_view(zip).substr(0, zip.size() - 30));
  scratch.write("cut_without_name", std::string_view(zip).substr(0, zip.size() / 2));
  scratch.write("empty.zip", "");
  scratch.write("texts.zip", write_zip({{"a.txt", "text"}}, false));

  const auto error_at = [&](const std::string& name) {
    const std::string error = open_error(at(scratch.path(name)));
    CHECK(contains(error, scratch.path(name) + ": "));
    CHECK_FALSE(contains(error, "\n"));
    return error;
  };
  const Stopwatch watch;
  CHECK(contains(error_at("missing"), "no such file or folder"));
  CHECK(contains(error_at("notes.txt"), "neither an archive of pictures nor a data file"));
  CHECK(contains(error_at("only.png"), "wants the folder"));
  CHECK(contains(error_at("empty"), "no pictures in it"));
  CHECK(contains(error_at("texts"), "; 1 .md ignored"));
  CHECK(contains(error_at("cut.zip"), "broken zip archive"));
  CHECK(contains(error_at("cut_without_name"), "cut off"));
  CHECK(contains(error_at("empty.zip"), "zip archive"));
  CHECK(contains(error_at("texts.zip"), "no pictures in it"));
  CHECK(contains(open_error(at("synth:cats")), "synth:shapes"));
  CHECK(watch.seconds() < 60);
}

TEST_CASE("LinksAreFollowedAndLoopsEnd") {
  const Scratch scratch;
  scratch.write("real/a.png", one_color(1));
  scratch.write("set/b.png", one_color(2));
  std::filesystem::create_directory_symlink(scratch.path("real"), scratch.path("set/linked"));
  std::filesystem::create_directory_symlink(scratch.path("set"), scratch.path("set/loop"));
  std::filesystem::create_symlink(scratch.path("nowhere"), scratch.path("set/dangling.png"));
  CHECK(values(*open_dataset(at(scratch.path("set")))) == std::vector<int>{2, 1});
}

TEST_CASE("RunsInsideTheDataAreLeftOut") {
  const Scratch scratch;
  scratch.write("a.png", one_color(1));
  for (const char* run : {"runs/00000-a", "results/exact"}) {
    const std::string folder = run;
    scratch.write(folder + "/STATUS", "running");
    scratch.write(folder + "/config.json", "{}");
    scratch.write(folder + "/samples/fakes000000.png", one_color(9));
  }
  scratch.write("other/config.json", "{}");
  scratch.write("other/b.png", one_color(2));
  std::filesystem::create_directory_symlink("00000-a", scratch.path("runs/latest"));
  CHECK(values(*open_dataset(at(scratch.path()))) == std::vector<int>{1, 2});
  const std::string asked_for = scratch.path("results/exact");
  CHECK(values(*open_dataset(at(asked_for))) == std::vector<int>{9});
}

TEST_CASE("CacheChangesNothing") {
  const Scratch scratch;
  for (int i = 0; i < 20; ++i) {
    scratch.write(fmt::format("{:02}.png", i), one_color(static_cast<uint8_t>(i)));
  }
  DataOptions options = at(scratch.path());
  const auto kept = open_dataset(options);
  options.cache_mb = 0;
  const auto plain = open_dataset(options);
  for (int round = 0; round < 2; ++round) CHECK(values(*kept) == values(*plain));
  for (int i = 0; i < 20; ++i) scratch.write(fmt::format("{:02}.png", i), "gone");
  CHECK(values(*kept).size() == 20);
}

TEST_CASE("LoadServesManyThreadsAndForkedProcesses") {
  const Scratch scratch;
  Files files;
  for (int i = 0; i < 50; ++i)
    files.push_back({fmt::format("{:02}.png", i), one_color(static_cast<uint8_t>(i))});
  DataOptions options =
      at(lay_out(scratch, files, GENERATE("folder", "deflated", "tar", "tar.gz")));
  options.cache_mb = GENERATE(0, 1);
  const auto dataset = open_dataset(options);
  const auto load_all = [&] {
    std::vector<int> wrong(4, 0);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int64_t i = 0; i < 100; ++i) {
          const int64_t index = (i * static_cast<int64_t>(2 * t + 1)) % 50;
          wrong[t] += dataset->load(index).pixels[0] != index;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return std::count(wrong.begin(), wrong.end(), 0) == 4;
  };
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(load_all() ? 0 : 1);
    children.push_back(child);
  }
  CHECK(load_all());
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
}

namespace {

struct Difference {
  int largest = 0;
  double mean = 0;
};

Difference between(const Image& a, const Image& b) {
  REQUIRE(a.pixels.size() == b.pixels.size());
  Difference found;
  for (size_t i = 0; i < a.pixels.size(); ++i) {
    const int distance = std::abs(a.pixels[i] - b.pixels[i]);
    found.largest = std::max(found.largest, distance);
    found.mean += distance / static_cast<double>(a.pixels.size());
  }
  return found;
}

// A built-in picture of 1000 x 800 pixels: smooth parts, hard edges.
Image scene(int64_t index) {
  const Image square = open_dataset(at("synth:shapes", 1000))->load(index);
  Image image = square;
  image.height = 800;
  image.pixels.resize(static_cast<size_t>(image.width * image.height * image.channels));
  return image;
}

}  // namespace

TEST_CASE("PicturesFromShrunkJpegsHardlyDiffer") {
  const Scratch scratch;
  for (int64_t i = 0; i < 4; ++i)
    scratch.write(fmt::format("{}.jpg", i), encode_jpeg(scene(i), 90));
  DataOptions options = at(scratch.path(), GENERATE(32, 64, 128));
  options.fit = GENERATE(Fit::kCrop, Fit::kPad, Fit::kStretch);
  const auto scaled = open_dataset(options);
  options.scaled_jpeg = ScaledJpeg::kOff;
  const auto whole = open_dataset(options);
  bool same = true;
  for (int64_t i = 0; i < scaled->size(); ++i) {
    const Image picture = scaled->load(i);
    const Difference difference = between(picture, whole->load(i));
    CHECK(difference.largest <= 6);
    CHECK(difference.mean <= 0.5);
    same = same && difference.largest == 0;
  }
  CHECK_FALSE(same);  // they were shrunk indeed
}

TEST_CASE("RectanglesFromShrunkJpegsHardlyDifferInAnyOrientation") {
  const Scratch scratch;
  for (int orientation = 1; orientation <= 8; ++orientation)
    scratch.write(fmt::format("{}.jpg", orientation),
                  with_orientation(encode_jpeg(scene(orientation % 4), 90), orientation, true));
  DataOptions options = at(scratch.path());
  options.resolution = GENERATE(Size{64, 32}, Size{32, 64}, Size{40, 56});
  options.fit = GENERATE(Fit::kCrop, Fit::kPad, Fit::kStretch);
  const auto scaled = open_dataset(options);
  options.scaled_jpeg = ScaledJpeg::kOff;
  const auto whole = open_dataset(options);
  bool same = true;
  for (int64_t i = 0; i < scaled->size(); ++i) {
    const Image picture = scaled->load(i);
    CHECK(Size{picture.width, picture.height} == options.resolution);
    const Difference difference = between(picture, whole->load(i));
    CHECK(difference.largest <= 6);
    CHECK(difference.mean <= 0.5);
    same = same && difference.largest == 0;
  }
  if (options.fit != Fit::kCrop || options.resolution != Size{40, 56}) CHECK_FALSE(same);
}

TEST_CASE("ARectangleIsCutFromTheMiddlePaddedOrStretched") {
  // Columns are 0, 1, ... 5 and 200 more in the lower half.
  Image image{6, 4, 1, {}};
  for (int row = 0; row < 4; ++row) {
    for (int column = 0; column < 6; ++column)
      image.pixels.push_back(static_cast<uint8_t>(column + (row < 2 ? 0 : 200)));
  }
  DataOptions options;
  options.filter = Filter::kBox;
  options.resolution = {6, 2};
  const auto row = [](uint8_t first) {
    std::vector<uint8_t> all;
    for (uint8_t k = 0; k < 6; ++k) all.push_back(static_cast<uint8_t>(first + k));
    return all;
  };
  std::vector<uint8_t> two = row(0);
  const std::vector<uint8_t> below = row(200);
  two.insert(two.end(), below.begin(), below.end());
  for (const Fit fit : {Fit::kCrop, Fit::kStretch}) {
    options.fit = fit;
    CHECK(prepare(image, 1, options).pixels == two);
  }
  options.fit = Fit::kPad;  // 3x2 in the middle: pairs of columns are averaged
  const Image padded = prepare(image, 1, options);
  CHECK(Size{padded.width, padded.height} == Size{6, 2});
  CHECK(padded.pixels[0] == 255);
  CHECK(padded.pixels[5] == 255);
  CHECK(int{padded.pixels[6 + 2]} >= 200);
}

TEST_CASE("OnlyAPictureOfThatVeryShapeIsPrepared") {
  DataOptions options = at("");
  options.resolution = {16, 8};
  CHECK(is_prepared(test_picture(16, 8, 3), 3, options));
  CHECK_FALSE(is_prepared(test_picture(8, 16, 3), 3, options));
  CHECK_FALSE(is_prepared(test_picture(16, 16, 3), 3, options));
}

TEST_CASE("JpegsLessThanFourTimesAsLargeAreDecodedWhole") {
  const Scratch scratch;
  scratch.write("a.jpg", encode_jpeg(scene(5), 90));
  DataOptions options = at(scratch.path(), 256);
  const Image scaled = open_dataset(options)->load(0);
  options.scaled_jpeg = ScaledJpeg::kOff;
  CHECK(open_dataset(options)->load(0).pixels == scaled.pixels);
}

TEST_CASE("PreparedPicturesKeepTheirPixels") {
  const DataOptions options = at("", 16);
  const Image image = test_picture(16, 16, 3);
  CHECK(is_prepared(image, 3, options));
  CHECK(prepare(image, 3, options).pixels == image.pixels);
  CHECK_FALSE(is_prepared(image, 1, options));
  CHECK_FALSE(is_prepared(test_picture(17, 16, 3), 3, options));
  CHECK_FALSE(is_prepared(test_picture(16, 17, 3), 3, options));
}

// image/resize against LibTorch's antialiased resampling, which equals Pillow's but for Pillow's
// rounding between the passes; test/scripts/pillow_test.sh holds it against Pillow itself.
namespace {

// [1, C, H, W], float.
at::Tensor to_tensor(const Image& image) {
  return at::tensor(at::ArrayRef<uint8_t>(image.pixels))
      .reshape({1, image.height, image.width, image.channels})
      .permute({0, 3, 1, 2})
      .to(at::kFloat);
}

// Largest difference to the unrounded values: at most half a step where both do the same.
double distance(const Image& image, const at::Tensor& expected) {
  return (to_tensor(image) - expected.clamp(0, 255)).abs().max().item<double>();
}

}  // namespace

// One side at a time: between two passes resize() rounds, and LibTorch does not.
TEST_CASE("ResizeEqualsTheAntialiasedResamplingOfLibTorch") {
  const Image image = test_picture(61, 47, GENERATE(1, 3));
  const at::Tensor input = to_tensor(image);
  for (const Size size : {Size{16, 47},
                          Size{32, 47},
                          Size{100, 47},
                          Size{1, 47},
                          Size{61, 10},
                          Size{61, 20},
                          Size{61, 130},
                          Size{61, 1}}) {
    const std::array<int64_t, 2> shape = {size.height, size.width};
    const auto bicubic = at::_upsample_bicubic2d_aa(input, shape, false);
    CHECK(distance(resize(image, size, Filter::kBicubic), bicubic) < 0.502);
    const auto bilinear = at::_upsample_bilinear2d_aa(input, shape, false);
    CHECK(distance(resize(image, size, Filter::kBilinear), bilinear) < 0.502);
  }
}

TEST_CASE("ResizeByLanczosEqualsItsDefinition") {
  // Rows of weights written down afresh: sinc(x) sinc(x / 3), widened by the scale, normalised.
  const auto matrix = [](int64_t from, int64_t to) {
    const double scale = static_cast<double>(from) / static_cast<double>(to);
    const double widen = std::max(scale, 1.0);
    const auto center = (at::arange(to, at::kDouble) + 0.5) * scale;
    const auto x =
        ((at::arange(from, at::kDouble) + 0.5).unsqueeze(0) - center.unsqueeze(1)) / widen;
    const auto weights = at::where(x.abs() < 3, at::sinc(x) * at::sinc(x / 3), at::zeros_like(x));
    return (weights / weights.sum(1, true)).to(at::kFloat);
  };
  const Image image = test_picture(50, 40, 3);
  for (const Size size : {Size{16, 40}, Size{75, 40}, Size{50, 9}, Size{50, 64}}) {
    const auto expected = at::matmul(at::matmul(matrix(40, size.height), to_tensor(image)),
                                     matrix(50, size.width).t());
    CHECK(distance(resize(image, size, Filter::kLanczos), expected) < 0.51);
  }
}

}  // namespace gantrain
