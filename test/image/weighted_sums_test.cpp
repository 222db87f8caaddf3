// SPDX-License-Identifier: Apache-2.0
#include "image/weighted_sums.h"

#include <catch2/catch.hpp>

#include "support/pictures.h"

namespace gantrain {

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
