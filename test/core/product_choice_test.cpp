// SPDX-License-Identifier: Apache-2.0
#include "core/forward_precision.h"
#include "support/catch.h"

using namespace gantrain;

TEST_CASE("AProductComesBackFromItsText") {
  for (const char* text : {"conv2d 512x32x32 512x512x3x3",
                           "conv2d 512x33x33 256x512x3x3 s2",
                           "conv2d 2048x8x8 2048x512x3x3 p1x1 g4",
                           "conv_transpose2d 64x4x8 64x32x4x4 s2 p1x0",
                           "linear 8192 512x8192"}) {
    CAPTURE(text);
    const std::optional<Product> product = product_from(text);
    REQUIRE(product.has_value());
    CHECK(to_text(*product) == text);
  }
  const Product down = *product_from("conv2d 512x33x32 256x512x3x1 s2 p1x0");
  CHECK(down.input == std::array<int64_t, 3>{512, 33, 32});
  CHECK(down.weight == std::array<int64_t, 4>{256, 512, 3, 1});
  CHECK(down.stride == 2);
  CHECK(down.padding == std::array<int64_t, 2>{1, 0});
  CHECK(down.groups == 1);
}

TEST_CASE("AChoiceComesBackFromItsText") {
  const ProductChoice choice = {{*product_from("conv2d 3x8x8 4x3x1x1"), true},
                                {*product_from("linear 4 2x4"), false}};
  CHECK(to_text(choice) == "conv2d 3x8x8 4x3x1x1 = bfloat16, linear 4 2x4 = float32");
  CHECK((choice_from(to_text(choice)) == choice));
  CHECK(to_text(ProductChoice()) == "float32");
  CHECK(choice_from("float32").value().empty());
}

TEST_CASE("OtherTextIsNoChoice") {
  for (const char* text : {"",
                           "bfloat16",
                           "auto",
                           "linear 4 2x4",
                           "linear 4 2x4 = float16",
                           "linear 4x1 2x4 = float32",
                           "linear 4 2x-4 = float32",
                           "conv3d 3x8x8 4x3x1x1 = float32",
                           "conv2d 3x8 4x3x1x1 = float32",
                           "conv2d 3x8x8 4x3x1x1 s = float32",
                           "conv2d 3x8x8 4x3x1x1 s0 = float32",
                           "conv2d 3x8x8 4x3x1x1 p1 = float32",
                           "conv2d 3x8x8 4x3x1x1 z2 = float32",
                           "linear 4 2x4 = float32,"}) {
    CAPTURE(text);
    CHECK_FALSE(choice_from(text).has_value());
  }
}
