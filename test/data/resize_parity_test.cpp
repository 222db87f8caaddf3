// SPDX-License-Identifier: Apache-2.0
// image/resize against LibTorch's antialiased resampling, which equals Pillow's but for Pillow's
// rounding between the passes; test/scripts/pillow_test.sh holds it against Pillow itself.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "image/resize.h"
#include "support/pictures.h"

namespace gantrain {

namespace {

// [1, C, H, W], float.
at::Tensor to_tensor(const Image& image) {
  return at::tensor(at::ArrayRef<uint8_t>(image.pixels))
      .reshape({1, image.height, image.width, image.channels})
      .permute({0, 3, 1, 2})
      .to(at::kFloat);
}

// Largest difference to the unrounded values: at most half a step where both do the same.
double distance(const Image& image, const at::Tensor& expected) {
  return (to_tensor(image) - expected.clamp(0, 255)).abs().max().item<double>();
}

}  // namespace

// One side at a time: between two passes resize() rounds, and LibTorch does not.
TEST_CASE("ResizeEqualsTheAntialiasedResamplingOfLibTorch") {
  const Image image = test_picture(61, 47, GENERATE(1, 3));
  const at::Tensor input = to_tensor(image);
  for (const Size size : {Size{16, 47},
                          Size{32, 47},
                          Size{100, 47},
                          Size{1, 47},
                          Size{61, 10},
                          Size{61, 20},
                          Size{61, 130},
                          Size{61, 1}}) {
    const std::array<int64_t, 2> shape = {size.height, size.width};
    const auto bicubic = at::_upsample_bicubic2d_aa(input, shape, false);
    CHECK(distance(resize(image, size, Filter::kBicubic), bicubic) < 0.502);
    const auto bilinear = at::_upsample_bilinear2d_aa(input, shape, false);
    CHECK(distance(resize(image, size, Filter::kBilinear), bilinear) < 0.502);
  }
}

TEST_CASE("ResizeByLanczosEqualsItsDefinition") {
  // Rows of weights written down afresh: sinc(x) sinc(x / 3), widened by the scale, normalised.
  const auto matrix = [](int64_t from, int64_t to) {
    const double scale = static_cast<double>(from) / static_cast<double>(to);
    const double widen = std::max(scale, 1.0);
    const auto center = (at::arange(to, at::kDouble) + 0.5) * scale;
    const auto x =
        ((at::arange(from, at::kDouble) + 0.5).unsqueeze(0) - center.unsqueeze(1)) / widen;
    const auto weights = at::where(x.abs() < 3, at::sinc(x) * at::sinc(x / 3), at::zeros_like(x));
    return (weights / weights.sum(1, true)).to(at::kFloat);
  };
  const Image image = test_picture(50, 40, 3);
  for (const Size size : {Size{16, 40}, Size{75, 40}, Size{50, 9}, Size{50, 64}}) {
    const auto expected = at::matmul(at::matmul(matrix(40, size.height), to_tensor(image)),
                                     matrix(50, size.width).t());
    CHECK(distance(resize(image, size, Filter::kLanczos), expected) < 0.51);
  }
}

}  // namespace gantrain
