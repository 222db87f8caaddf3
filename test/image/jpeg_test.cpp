// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "image/codec.h"
#include "image/pictures.h"

namespace gantrain {

namespace {

void decode_bytes(std::string_view bytes) { decode_image(bytes, "a.jpg"); }

// 8 x 16 pixels: red, green, blue and white quarters of 4 x 8, at the top left, top right, bottom
// left and bottom right.
Image quarters() {
  const std::vector<std::vector<uint8_t>> colors = {
      {250, 10, 10}, {10, 250, 10}, {10, 10, 250}, {250, 250, 250}};
  Image image{.width = 16, .height = 32, .channels = 3};
  for (int y = 0; y < 32; ++y) {
    for (int x = 0; x < 16; ++x) {
      const auto& color = colors[static_cast<size_t>((y / 16) * 2 + x / 8)];
      image.pixels.insert(image.pixels.end(), color.begin(), color.end());
    }
  }
  return image;
}

// "RGBW": which quarters stand at the top left, top right, bottom left, bottom right.
std::string arrangement(const Image& image) {
  std::string letters;
  for (const int64_t y : {image.height / 4, image.height * 3 / 4}) {
    for (const int64_t x : {image.width / 4, image.width * 3 / 4}) {
      const uint8_t* p = &image.pixels[static_cast<size_t>((y * image.width + x) * 3)];
      letters += p[0] > 128 && p[1] > 128 ? 'W' : p[0] > 128 ? 'R' : p[1] > 128 ? 'G' : 'B';
    }
  }
  return letters;
}

}  // namespace

TEST_CASE("JpegKeepsGreyAndColor") {
  const int64_t channels = GENERATE(1, 3);
  const Image image = test_picture(40, 24, channels);
  const Image back = decode_image(encode_jpeg(image, 98), "a.jpg");
  CHECK(back.channels == channels);
  CHECK(largest_difference(image, back) <= 8);
}

TEST_CASE("JpegOfAlphaLiesOverWhite") {
  Image image{.width = 8, .height = 8, .channels = 4};
  for (int i = 0; i < 64; ++i) image.pixels.insert(image.pixels.end(), {200, 0, 0, 0});
  const Image back = decode_image(encode_jpeg(image), "a.jpg");
  CHECK(back.channels == 3);
  CHECK(back.pixels[0] > 250);
  CHECK(back.pixels[1] > 250);
}

TEST_CASE("JpegCmykBecomesRgb") {
  const std::string bytes = write_cmyk_jpeg(16, 16, {255, 128, 0, 255});  // orange, no black
  const Image image = decode_image(bytes, "a.jpg");
  CHECK(image.channels == 3);
  CHECK(image_info(bytes, "a.jpg").channels == 3);
  CHECK(std::abs(image.pixels[0] - 255) <= 3);
  CHECK(std::abs(image.pixels[1] - 128) <= 3);
  CHECK(std::abs(image.pixels[2] - 0) <= 3);
}

TEST_CASE("JpegExifOrientationIsApplied") {
  const bool big_endian = GENERATE(false, true);
  const std::string bytes = encode_jpeg(quarters());
  const std::vector<std::string> expected = {
      "RGBW", "GRWB", "WBGR", "BWRG", "RBGW", "BRWG", "WGBR", "GWRB"};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string turned = with_orientation(bytes, orientation, big_endian);
    CHECK(jpeg_orientation(turned) == orientation);
    const Image image = decode_image(turned, "a.jpg");
    CHECK(image.width == (orientation < 5 ? 16 : 32));
    CHECK(arrangement(image) == expected[static_cast<size_t>(orientation - 1)]);
  }
}

TEST_CASE("JpegOrientationOutOfRangeIsIgnored") {
  const std::string bytes = encode_jpeg(quarters());
  CHECK(jpeg_orientation(bytes) == 1);
  CHECK(jpeg_orientation(with_orientation(bytes, 9, true)) == 1);
  CHECK(jpeg_orientation(with_orientation(bytes, 0, false)) == 1);
}

TEST_CASE("JpegCutOffAnywhereIsRefusedByName") {
  const std::string bytes = encode_jpeg(test_picture(24, 24, 3), 80);
  CHECK(accepted_beginnings(bytes, decode_bytes) == 0);
  CHECK(accepted_beginnings(bytes, [](std::string_view part) { verify_image(part, "a.jpg"); }) ==
        0);
  const std::string error = input_error([&] { decode_bytes(bytes.substr(0, bytes.size() - 40)); });
  CHECK(error.find("a.jpg: broken JPEG: ") == 0);
}

TEST_CASE("JpegWithDamagedBytesIsAnImageOrAnErrorAndVerifyAgrees") {
  const std::string bytes = with_orientation(encode_jpeg(test_picture(32, 24, 3), 80), 6, true);
  accepted_damage(bytes, 3000, [](std::string_view damaged) {
    const auto verify = input_error([&] { verify_image(damaged, "a.jpg"); });
    const auto decode = input_error([&] { decode_bytes(damaged); });
    CHECK(verify.empty() == decode.empty());
  });
}

}  // namespace gantrain
