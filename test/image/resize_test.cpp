// SPDX-License-Identifier: Apache-2.0
#include "image/resize.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <stdexcept>

#include "support/pictures.h"

namespace gantrain {

using Pixels = std::vector<uint8_t>;

namespace {

Filter any_filter() {
  return GENERATE(Filter::kLanczos, Filter::kBicubic, Filter::kBilinear, Filter::kBox);
}

}  // namespace

TEST_CASE("ResizeToTheSameSizeChangesNothing") {
  const Filter filter = any_filter();
  const Image image = test_picture(17, 9, 3);
  CHECK(resize(image, {17, 9}, filter).pixels == image.pixels);
}

TEST_CASE("ResizeOfOneColorIsThatColor") {
  const Filter filter = any_filter();
  Image image{.width = 31, .height = 22, .channels = 2};
  for (int i = 0; i < 31 * 22; ++i) image.pixels.insert(image.pixels.end(), {137, 255});
  for (const Size size : {Size{7, 5}, Size{64, 64}, Size{1, 1}}) {
    const Image out = resize(image, size, filter);
    for (size_t i = 0; i < out.pixels.size(); i += 2) {
      CHECK(out.pixels[i] == 137);
      CHECK(out.pixels[i + 1] == 255);
    }
  }
}

// Pillow's own steps: 137 * 90 / 255 is 48, rounded, and 255 * 48 / 90 is 136, cut off.
TEST_CASE("ResizeOfAHalfTransparentColorRoundsAsPillowDoes") {
  const Filter filter = any_filter();
  const Image image{2, 2, 2, {137, 90, 137, 90, 137, 90, 137, 90}};
  const Image out = resize(image, {3, 5}, filter);
  for (size_t i = 0; i < out.pixels.size(); i += 2) {
    CHECK(out.pixels[i] == 136);
    CHECK(out.pixels[i + 1] == 90);
  }
}

TEST_CASE("ResizeByBoxAveragesWholeBlocks") {
  const Image image{4, 2, 1, {0, 10, 100, 110, 20, 30, 120, 130}};
  CHECK(resize(image, {2, 1}, Filter::kBox).pixels == Pixels{15, 115});
}

TEST_CASE("ResizeMirrorsWithItsInput") {
  // The box is left out: of two pixels at its edges it takes one, as Pillow does.
  const Filter filter = GENERATE(Filter::kLanczos, Filter::kBicubic, Filter::kBilinear);
  const auto mirrored = [](Image image) {
    for (int64_t row = 0; row < image.height; ++row) {
      std::reverse(image.pixels.begin() + row * image.width,
                   image.pixels.begin() + (row + 1) * image.width);
    }
    return image;
  };
  const Image image = test_picture(37, 20, 1);
  const Image a = mirrored(resize(image, {16, 8}, filter));
  const Image b = resize(mirrored(image), {16, 8}, filter);
  CHECK(largest_difference(a, b) <= 1);
}

TEST_CASE("ResizeOfABoxIsTheResizeOfThatCrop") {
  const Filter filter = any_filter();
  const Image image = test_picture(20, 16, 3);
  Image crop{.width = 12, .height = 10, .channels = 3};
  for (int64_t row = 3; row < 13; ++row) {
    const auto start = image.pixels.begin() + (row * 20 + 5) * 3;
    crop.pixels.insert(crop.pixels.end(), start, start + 36);
  }
  CHECK(resize(image, {5, 3, 12, 10}, {8, 8}, filter).pixels ==
        resize(crop, {8, 8}, filter).pixels);
}

TEST_CASE("ResizeKeepsHiddenColorsHidden") {
  // A red pixel beside fully transparent green ones: no green may seep in.
  const Image image{4, 1, 4, {255, 0, 0, 255, 0, 255, 0, 0, 0, 255, 0, 0, 255, 0, 0, 255}};
  const Image out = resize(image, {2, 1}, Filter::kBilinear);
  for (size_t i = 0; i < out.pixels.size(); i += 4) {
    CHECK(out.pixels[i] == 255);
    CHECK(out.pixels[i + 1] == 0);
    CHECK(out.pixels[i + 3] > 0);
  }
}

TEST_CASE("ResizeRefusesABoxOutsideThePicture") {
  const Image image = test_picture(4, 4, 1);
  CHECK_THROWS_AS(resize(image, {1, 0, 4, 4}, {2, 2}, Filter::kBox), std::invalid_argument);
  CHECK_THROWS_AS(resize(image, {0, 2}, Filter::kBox), std::invalid_argument);
}

// The order is Pillow 13's: down first where that takes away more than twice as many pixels.
TEST_CASE("ResizeIsOnePassAfterTheOther") {
  const Filter filter = any_filter();
  struct Case {
    Size from, to;
    bool down_first;
  };
  for (const auto& [from, to, down_first] : {Case{{40, 30}, {16, 16}, false},
                                             Case{{40, 60}, {30, 41}, false},
                                             Case{{40, 60}, {31, 41}, true},
                                             Case{{20, 60}, {50, 41}, true},
                                             Case{{20, 30}, {90, 70}, false}}) {
    const Image image = test_picture(from.width, from.height, 3);
    const Size half = down_first ? Size{from.width, to.height} : Size{to.width, from.height};
    CHECK(resize(image, to, filter).pixels ==
          resize(resize(image, half, filter), to, filter).pixels);
  }
}

}  // namespace gantrain
