// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "data/pictures/dataset.h"
#include "image/image.h"
#include "image/resize.h"
#include "support/catch.h"

namespace gantrain {

namespace {

DataOptions shapes_of(int64_t resolution) {
  DataOptions options;
  options.resolution = square_of(resolution);
  return options;
}

}  // namespace

TEST_CASE("ShapesAreTheSameEveryTime") {
  const auto a = make_shapes(shapes_of(32));
  const auto b = make_shapes(shapes_of(32));
  std::set<std::vector<uint8_t>> different;
  for (int64_t i = 0; i < 200; ++i) {
    const Image image = a->load(i);
    CHECK(image.pixels == b->load(i).pixels);
    different.insert(image.pixels);
  }
  CHECK(different.size() == 200);
}

TEST_CASE("ShapesHaveTenEquallyFrequentClasses") {
  const auto shapes = make_shapes(shapes_of(16));
  CHECK(shapes->classes() == 10);
  CHECK(shapes->size() == 65536);
  for (int64_t i = 0; i < 30; ++i) CHECK(shapes->label(i) == i % 10);
}

TEST_CASE("ShapesAreOneSceneAtEveryResolution") {
  const auto large = make_shapes(shapes_of(256));
  for (const int64_t side : {16, 32, 64}) {
    const auto small = make_shapes(shapes_of(side));
    for (int64_t i = 0; i < 20; ++i) {
      const Image reduced = resize(large->load(i), {side, side}, Filter::kBox);
      const Image drawn = small->load(i);
      double sum = 0;
      for (size_t k = 0; k < drawn.pixels.size(); ++k) {
        sum += std::abs(int{drawn.pixels[k]} - int{reduced.pixels[k]});
      }
      CHECK(sum / static_cast<double>(drawn.pixels.size()) < 5);
    }
  }
}

TEST_CASE("ShapesStandOutAndStayInside") {
  const auto shapes = make_shapes(shapes_of(64));
  for (int64_t i = 0; i < 100; ++i) {
    const Image image = with_channels(shapes->load(i), 1);
    uint8_t border = 255;
    for (int64_t k = 0; k < 64; ++k) {
      border = std::min({border,
                         image.pixels[static_cast<size_t>(k)],
                         image.pixels[static_cast<size_t>(64 * k)],
                         image.pixels[static_cast<size_t>(64 * k + 63)],
                         image.pixels[static_cast<size_t>(64 * 63 + k)]});
    }
    const uint8_t darkest = *std::min_element(image.pixels.begin(), image.pixels.end());
    CHECK(int{border} > 150);
    CHECK(border - darkest > 40);
  }
}

TEST_CASE("ShapesInRectanglesAreThoseOfSquaresElsewhere") {
  for (const Size& size : {Size{96, 32}, Size{32, 96}}) {
    DataOptions options;
    options.resolution = size;
    const auto shapes = make_shapes(options), squares = make_shapes(shapes_of(32));
    std::set<int64_t> centres;
    for (int64_t i = 0; i < 50; ++i) {
      const Image image = with_channels(shapes->load(i), 1);
      CHECK(Size{image.width, image.height} == size);
      const Image square = with_channels(squares->load(i), 1);
      const auto dark = [](const Image& picture, const auto& add) {
        const uint8_t darkest = *std::min_element(picture.pixels.begin(), picture.pixels.end());
        int64_t count = 0;
        for (int64_t k = 0; k < picture.width * picture.height; ++k) {
          if (picture.pixels[static_cast<size_t>(k)] > darkest + 12) continue;
          ++count;
          add(size_t(k % picture.width), size_t(k / picture.width));
        }
        return static_cast<double>(count);
      };
      size_t along = 0;
      const double mine =
          dark(image, [&](size_t x, size_t y) { along += size.width > 32 ? x : y; });
      const double its = dark(square, [](size_t, size_t) {});
      // As large as in the square, and not stretched.
      CHECK(mine == Approx(its).epsilon(0.35).margin(12));
      centres.insert(static_cast<int64_t>(static_cast<double>(along) / mine / 24));
    }
    CHECK(centres.size() >= 3);  // anywhere along the longer side
  }
}

TEST_CASE("ShapesComeWithAnyNumberOfChannels") {
  const int64_t channels = GENERATE(1, 2, 3, 4);
  DataOptions options = shapes_of(16);
  options.channels = channels;
  const auto shapes = make_shapes(options);
  CHECK(shapes->channels() == channels);
  CHECK(shapes->load(3).channels == channels);
}

}  // namespace gantrain
