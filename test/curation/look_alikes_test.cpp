// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "curation/picture_look.h"
#include "data/pictures/dataset.h"
#include "image/resize.h"
#include "support/pictures.h"

namespace gantrain {
namespace {

std::shared_ptr<const Dataset> shapes(int64_t count, int64_t side) {
  DataOptions options;
  options.synth_size = count;
  options.resolution = square_of(side);
  return open_dataset(options);
}

TEST_CASE("CopiesThatWereCompressedAgainLookAlike") {
  const auto pictures = shapes(40, 96);
  for (int64_t i = 0; i < pictures->size(); ++i) {
    CAPTURE(i);
    const Image picture = pictures->load(i);
    const Look look = look_of(picture);
    CHECK(look_alike(look, look_of(decode_image(encode_jpeg(picture, 50), "a"))));
    CHECK(look_alike(look, look_of(decode_image(encode_webp(picture, 60), "a"))));
  }
}

TEST_CASE("ResizedCopiesLookAlike") {
  const auto pictures = shapes(40, 96);
  for (int64_t i = 0; i < pictures->size(); ++i) {
    CAPTURE(i);
    const Image picture = pictures->load(i);
    for (const Size size : {Size{64, 64}, Size{150, 150}, Size{48, 48}}) {
      const Image other = resize(picture, size, Filter::kLanczos);
      CHECK(look_alike(look_of(picture), look_of(decode_image(encode_jpeg(other, 80), "a"))));
    }
  }
}

TEST_CASE("DifferentIconsDoNotLookAlike") {
  const auto pictures = shapes(2000, 32);
  LookAlikes looks;
  int64_t alike = 0;
  for (int64_t i = 0; i < pictures->size(); ++i)
    alike += looks.add(i, look_of(pictures->load(i))) ? 1 : 0;
  CHECK(alike == 0);
}

// White paper with one small dot that is elsewhere each time.
TEST_CASE("ADotElsewhereIsAnotherPicture") {
  LookAlikes looks;
  for (int64_t i = 0; i < 100; ++i) {
    Image page{.width = 64, .height = 64, .channels = 1, .pixels = {}};
    page.pixels.assign(64 * 64, 255);
    const int64_t x = i % 10 * 6 + 2, y = i / 10 * 6 + 2;
    for (int64_t row = y; row < y + 4; ++row) {
      for (int64_t column = x; column < x + 4; ++column)
        page.pixels[static_cast<size_t>(row * 64 + column)] = 0;
    }
    CHECK_FALSE(looks.add(i, look_of(page)));
  }
}

TEST_CASE("StretchedPicturesDoNotLookAlike") {
  const Image picture = shapes(1, 64)->load(0);
  CHECK_FALSE(look_alike(look_of(picture), look_of(resize(picture, Size{64, 48}, Filter::kBox))));
}

TEST_CASE("EachCopyIsFoundAmongManyPictures") {
  const auto pictures = shapes(3000, 32);
  LookAlikes looks;
  for (int64_t i = 0; i < pictures->size(); ++i) looks.add(i, look_of(pictures->load(i)));
  for (int64_t i = 0; i < pictures->size(); i += 30) {
    CAPTURE(i);
    const Image copy = resize(pictures->load(i), Size{64, 64}, Filter::kBicubic);
    CHECK(looks.add(pictures->size() + i, look_of(copy)) == i);
  }
}

// A grid of neighbours is searched, so a copy that falls into the next cell is found as well.
TEST_CASE("CopiesAcrossTheEdgeOfACellAreFound") {
  for (int level = 20; level < 220; ++level) {
    Image one = test_picture(32, 32, 3);
    for (uint8_t& pixel : one.pixels) pixel = static_cast<uint8_t>((pixel / 8) + level);
    Image other = one;
    for (uint8_t& pixel : other.pixels) pixel = static_cast<uint8_t>(pixel + 1);
    LookAlikes looks;
    CHECK_FALSE(looks.add(0, look_of(one)));
    CAPTURE(level);
    CHECK(looks.add(1, look_of(other)) == 0);
  }
}

}  // namespace
}  // namespace gantrain
