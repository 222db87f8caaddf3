// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "image/resize.h"
#include "support/pictures.h"

namespace gantrain {

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

}  // namespace gantrain
