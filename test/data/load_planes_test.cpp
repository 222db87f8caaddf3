// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "core/torch.h"
#include "data/load/loader.h"
#include "data/pictures/shapes.h"

using namespace gantrain;

TEST_CASE("PicturesAreLoadedAsPlanesInTheOrderAskedFor") {
  DataOptions options;
  options.resolution = {24, 16};
  options.synth_size = 8;
  const auto shapes = make_shapes(options);
  const at::Tensor planes = load_planes(*shapes, {{5}, {2}, {5, true}});
  REQUIRE(planes.sizes() == at::IntArrayRef{3, 3, 16, 24});
  CHECK(planes[2].equal(planes[0].flip(2)));
  CHECK_FALSE(planes[0].equal(planes[1]));
  const Image image = shapes->load(2);
  for (const int64_t y : {0, 7, 15}) {
    for (const int64_t x : {0, 11, 23}) {
      for (int64_t c = 0; c < 3; ++c) {
        const uint8_t wanted = image.pixels[static_cast<size_t>((y * 24 + x) * 3 + c)];
        CHECK(planes[1][c][y][x].item<int64_t>() == wanted);
      }
    }
  }
}
