// SPDX-License-Identifier: Apache-2.0
#include "data/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "data/picture_files.h"

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
