// SPDX-License-Identifier: Apache-2.0
#include "image/resize.h"

#include <algorithm>
#include <stdexcept>

#include "image/codec.h"
#include "support/catch.h"
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

TEST_CASE("PlanesHoldThePixelsOfEachChannelAlsoMirrored") {
  const int64_t channels = GENERATE(1, 2, 3, 4);
  const int64_t width = GENERATE(1, 31, 64, 77);
  const bool flipped = GENERATE(false, true);
  const int64_t height = 5;
  const Image image = test_picture(width, height, channels);
  std::vector<uint8_t> planes(image.pixels.size() + 1, 99);
  copy_planes(view_of(image), flipped, planes.data());
  int wrong = 0;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        const int64_t from = flipped ? width - 1 - x : x;
        const auto at = static_cast<size_t>((y * width + from) * channels + c);
        wrong += planes[static_cast<size_t>((c * height + y) * width + x)] != image.pixels[at];
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(planes.back() == 99);
}

constexpr int32_t kHalf = 1 << (kWeightBits - 1);

TEST_CASE("SumsOfRowsAreThoseOfAPlainLoop") {
  const int64_t width = GENERATE(1, 32, 95, 200);
  const int64_t count = GENERATE(1, 7, 24);
  const int64_t stride = 210;
  const Image image = test_picture(stride, 30, 1);
  std::vector<int32_t> weights;
  for (int64_t k = 0; k < count; ++k)
    weights.push_back(static_cast<int32_t>((k % 3 == 2 ? -1 : 1) * 400'000 / (k + 3)));
  std::vector<int32_t> expected;
  for (int64_t x = 0; x < width; ++x) {
    int32_t sum = kHalf;
    for (int64_t k = 0; k < count; ++k)
      sum += weights[static_cast<size_t>(k)] * image.pixels[static_cast<size_t>(k * stride + x)];
    expected.push_back(sum);
  }
  std::vector<int32_t> out(static_cast<size_t>(width));
  sum_rows(image.pixels.data(), stride, weights.data(), count, width, out.data());
  CHECK(out == expected);
}

namespace {

// Eight rows of `width` numbers, each different, and where they begin.
struct RowsOfTest {
  explicit RowsOfTest(int64_t width) {
    for (int64_t i = 0; i < kRowsAtOnce * width; ++i)
      bytes.push_back(static_cast<uint8_t>(i * i % 251));
    for (size_t r = 0; r < rows.size(); ++r)
      rows[r] = bytes.data() + static_cast<int64_t>(r) * width;
  }
  std::vector<uint8_t> bytes;
  EightRows rows = {};
};

}  // namespace

TEST_CASE("InterleavedRowsAreTakenApartAgain") {
  const int64_t width = GENERATE(1, 7, 8, 9, 40);
  const RowsOfTest test(width);
  std::vector<int32_t> together(static_cast<size_t>(width * kRowsAtOnce));
  interleave(test.rows, width, together.data());
  for (int64_t i = 0; i < width * kRowsAtOnce; ++i) {
    const uint8_t* row = test.rows[static_cast<size_t>(i % kRowsAtOnce)];
    CHECK(together[static_cast<size_t>(i)] == row[i / kRowsAtOnce]);
  }
  for (int32_t& value : together) value <<= kWeightBits;
  std::vector<uint8_t> apart(test.bytes.size() + 1, 99);
  separate(together.data(), width, width, apart.data());
  CHECK(apart.back() == 99);
  apart.pop_back();
  CHECK(apart == test.bytes);
}

TEST_CASE("SumsAreRoundedAndCutOffAtTheRangeOfBytes") {
  const auto sum_of = [](double value) {
    return kHalf + static_cast<int32_t>(value * (1 << kWeightBits));
  };
  std::vector<int32_t> in;
  for (const double value : {-3.0, 0.0, 0.49, 0.5, 1.51, 254.4, 254.6, 300.0, -0.51})
    in.push_back(sum_of(value));
  std::vector<uint8_t> out(in.size());
  to_bytes(in.data(), static_cast<int64_t>(in.size()), out.data());
  CHECK(out == std::vector<uint8_t>{0, 0, 0, 1, 2, 254, 255, 255, 0});
}

TEST_CASE("SumsOfColumnsTakeEachChannelAndRowForItself") {
  const int64_t channels = GENERATE(1, 2, 3, 4);
  Taps taps{.first = {0, 2, 3}, .count = {2, 3, 1}, .weights = {}, .most = 3};
  taps.weights = {1, 10, -1, 1, 2, 4, 8, -1, -1};  // -1: not used
  const RowsOfTest test(5 * channels);
  std::vector<int32_t> in(static_cast<size_t>(5 * channels * kRowsAtOnce));
  interleave(test.rows, 5 * channels, in.data());
  const auto numbers = static_cast<size_t>(channels * kRowsAtOnce);
  std::vector<int32_t> out(3 * numbers + 1, 99);
  sum_columns(in.data(), channels, taps, out.data());
  for (size_t n = 0; n < numbers; ++n) {
    const auto at = [&](size_t pixel) { return in[pixel * numbers + n]; };
    CHECK(out[n] == kHalf + at(0) + 10 * at(1));
    CHECK(out[numbers + n] == kHalf + at(2) + 2 * at(3) + 4 * at(4));
    CHECK(out[2 * numbers + n] == kHalf + 8 * at(3));
  }
  CHECK(out.back() == 99);
}

}  // namespace gantrain
