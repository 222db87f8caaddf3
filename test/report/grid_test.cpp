// SPDX-License-Identifier: Apache-2.0
#include "report/grid.h"

#include <limits>

#include "core/torch.h"
#include "support/catch.h"

namespace gantrain {
namespace {

TEST_CASE("BytesAreRoundDownOfXTimes127_5Plus128") {
  const at::Tensor x = torch::tensor({-2.0f, -1.0f, -0.999f, 0.0f, 0.0039f, 0.99f, 1.0f, 5.0f});
  const at::Tensor bytes = to_bytes(x);
  const at::Tensor wanted = torch::tensor({0, 0, 0, 128, 128, 254, 255, 255}, at::kByte);
  CHECK(bytes.equal(wanted));
  CHECK(to_bytes(torch::tensor({std::numeric_limits<float>::quiet_NaN()})).item<int>() == 0);
  CHECK(to_bytes(x.to(at::kDouble)).equal(wanted));
}

TEST_CASE("EveryByteSurvivesTheWayToFloatAndBack") {
  const at::Tensor bytes = at::arange(256, at::kByte);
  CHECK(to_bytes(bytes.to(at::kFloat) / 127.5 - 1).equal(bytes));
}

TEST_CASE("ImageHasItsChannelsLast") {
  const at::Tensor picture = at::arange(2 * 3 * 4, at::kByte).view({2, 3, 4});
  const at::Tensor colour = at::cat({picture, picture.narrow(0, 0, 1) + 100});
  const Image image = to_image(colour);
  CHECK(image.width == 4);
  CHECK(image.height == 3);
  CHECK(image.channels == 3);
  CHECK(image.pixels[0] == 0);
  CHECK(image.pixels[1] == 12);
  CHECK(image.pixels[2] == 100);
  CHECK(image.pixels[3] == 1);
  const Image with_alpha = to_image(picture);
  CHECK(with_alpha.channels == 2);
  CHECK(with_alpha.pixels[0] == 0);
  CHECK(with_alpha.pixels[1] == 12);
  CHECK(with_alpha.pixels[2] == 1);
}

TEST_CASE("TilesStandRowByRowAndTheRestIsBlackAndClear") {
  const int64_t channels = GENERATE(1, 2, 3, 4);
  const at::Tensor images =
      at::arange(1, 6, at::kByte).view({5, 1, 1, 1}).expand({5, channels, 2, 3});
  const Image grid = tile(images, 3);
  CHECK(grid.width == 9);
  CHECK(grid.height == 4);
  CHECK(grid.channels == channels);
  const auto at = [&](int64_t x, int64_t y) {
    return static_cast<int>(grid.pixels[static_cast<size_t>((y * grid.width + x) * channels)]);
  };
  CHECK(at(0, 0) == 1);
  CHECK(at(2, 1) == 1);
  CHECK(at(3, 0) == 2);
  CHECK(at(8, 1) == 3);
  CHECK(at(0, 2) == 4);
  CHECK(at(5, 3) == 5);
  CHECK(at(6, 2) == 0);
  CHECK(grid.pixels.back() == 0);
  CHECK(tile(images, 10).width == 15);  // no more columns than pictures
}

}  // namespace
}  // namespace gantrain
