// SPDX-License-Identifier: Apache-2.0
#include "image/convert.h"

#include <catch2/catch.hpp>
#include <stdexcept>

#include "support/pictures.h"

namespace gantrain {

using Pixels = std::vector<uint8_t>;

namespace {

Pixels convert(const Pixels& pixel, int64_t channels) {
  const Image image{1, 1, static_cast<int64_t>(pixel.size()), pixel};
  return with_channels(image, channels).pixels;
}

}  // namespace

TEST_CASE("ChannelsAddedAreGreyInEachColorAndOpaque") {
  CHECK(convert({77}, 2) == Pixels{77, 255});
  CHECK(convert({77}, 3) == Pixels{77, 77, 77});
  CHECK(convert({77}, 4) == Pixels{77, 77, 77, 255});
  CHECK(convert({77, 9}, 4) == Pixels{77, 77, 77, 9});
  CHECK(convert({1, 2, 3}, 4) == Pixels{1, 2, 3, 255});
}

TEST_CASE("ChannelsDroppedLeaveLumaOverWhite") {
  CHECK(convert({100, 100, 100}, 1) == Pixels{100});
  CHECK(convert({255, 0, 0}, 1) == Pixels{76});
  CHECK(convert({0, 255, 0}, 1) == Pixels{150});
  CHECK(convert({0, 0, 255}, 1) == Pixels{29});
  CHECK(convert({10, 20, 30, 0}, 3) == Pixels{255, 255, 255});
  CHECK(convert({10, 20, 30, 255}, 3) == Pixels{10, 20, 30});
  CHECK(convert({0, 100, 200, 51}, 3) == Pixels{204, 224, 244});
  CHECK(convert({0, 128}, 1) == Pixels{127});
  CHECK(convert({9, 9, 9, 128}, 2) == Pixels{9, 128});
}

TEST_CASE("ChannelsAreOneToFour") {
  CHECK_THROWS_AS(convert({1}, 0), std::invalid_argument);
  CHECK_THROWS_AS(convert({1}, 5), std::invalid_argument);
}

TEST_CASE("OrientationIsUndoneByItsInverse") {
  const Image image = test_picture(5, 3, 3);
  for (const int k : {1, 2, 3, 4, 5, 7})
    CHECK(oriented(oriented(image, k), k).pixels == image.pixels);
  CHECK(oriented(oriented(image, 6), 8).pixels == image.pixels);
}

TEST_CASE("PaddingIsWhiteOrTransparentAround") {
  const Image grey = padded({1, 1, 1, {7}}, 3, 2);
  CHECK(grey.pixels == Pixels{255, 7, 255, 255, 255, 255});
  const Image alpha = padded({1, 1, 2, {7, 9}}, 3, 1);
  CHECK(alpha.pixels == Pixels{255, 0, 7, 9, 255, 0});
}

}  // namespace gantrain
