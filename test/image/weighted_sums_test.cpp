// SPDX-License-Identifier: Apache-2.0
#include "image/weighted_sums.h"

#include <catch2/catch.hpp>

#include "image/pictures.h"

namespace gantrain {

// Bit by bit: so a picture does not depend on what the processor can do.
TEST_CASE("SumsOfRowsAreThoseOfAPlainLoop") {
  const int64_t width = GENERATE(1, 32, 95, 200);
  const int64_t count = GENERATE(1, 7, 24);
  const int64_t stride = 210;
  const Image image = test_picture(stride, 30, 1);
  const std::vector<float> floats(image.pixels.begin(), image.pixels.end());
  std::vector<float> weights;
  for (int64_t k = 0; k < count; ++k) weights.push_back(0.37f / static_cast<float>(k + 3));
  std::vector<float> expected;
  for (int64_t x = 0; x < width; ++x) {
    float sum = 0;
    for (int64_t k = 0; k < count; ++k) {
      const float product = weights[static_cast<size_t>(k)] * floats[size_t(k * stride + x)];
      sum += product;
    }
    expected.push_back(sum);
  }
  std::vector<float> out(static_cast<size_t>(width));
  sum_rows(image.pixels.data(), stride, weights.data(), count, width, out.data());
  CHECK(out == expected);
  out.assign(out.size(), 0);
  sum_rows(floats.data(), stride, weights.data(), count, width, out.data());
  CHECK(out == expected);
}

TEST_CASE("SumsOfColumnsTakeEachChannelForItself") {
  const int64_t channels = GENERATE(1, 2, 3, 4);
  Taps taps{.first = {0, 2, 3}, .count = {2, 3, 1}, .weights = {}, .most = 3};
  taps.weights = {1, 10, -1, 1, 2, 4, 8, -1, -1};  // -1: not used
  std::vector<float> in;
  for (int64_t i = 0; i < 5 * channels + 4; ++i) in.push_back(static_cast<float>(i * i % 31));
  const auto at = [&](int64_t x, int64_t c) { return in[static_cast<size_t>(x * channels + c)]; };
  std::vector<float> out(static_cast<size_t>(3 * channels) + 1, 99);
  sum_columns(in.data(), channels, taps, out.data());
  for (int64_t c = 0; c < channels; ++c) {
    const auto i = static_cast<size_t>(c);
    const auto step = static_cast<size_t>(channels);
    CHECK(out[i] == at(0, c) + 10 * at(1, c));
    CHECK(out[step + i] == at(2, c) + 2 * at(3, c) + 4 * at(4, c));
    CHECK(out[2 * step + i] == 8 * at(3, c));
  }
  CHECK(out.back() == 99);
}

}  // namespace gantrain
