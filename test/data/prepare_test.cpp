// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "data/picture_files.h"
#include "data/pictures/dataset.h"

namespace gantrain {

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

}  // namespace gantrain
