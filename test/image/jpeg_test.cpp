// SPDX-License-Identifier: Apache-2.0
#include "image/codec.h"
#include "support/catch.h"
#include "support/pictures.h"

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
    CHECK(image_info(turned, "a.jpg").width == image.width);
    CHECK(arrangement(image) == expected[static_cast<size_t>(orientation - 1)]);
  }
}

TEST_CASE("JpegOrientationOutOfRangeIsIgnored") {
  const std::string bytes = encode_jpeg(quarters());
  CHECK(jpeg_orientation(bytes) == 1);
  CHECK(jpeg_orientation(with_orientation(bytes, 9, true)) == 1);
  CHECK(jpeg_orientation(with_orientation(bytes, 0, false)) == 1);
}

TEST_CASE("JpegIsShrunkAsFarAsItIsStillLargeEnough") {
  const std::string bytes = encode_jpeg(test_picture(192, 128, 3));
  Image image;
  const auto width = [&](const NeededSize& needed) {
    decode_image(bytes, "a.jpg", needed, image);
    CHECK(image.width * 128 == image.height * 192);
    return image.width;
  };
  CHECK(width({}) == 192);
  CHECK(width({.least = {1, 65}}) == 192);
  CHECK(width({.least = {1, 64}}) == 96);
  CHECK(width({.least = {49, 1}}) == 96);
  CHECK(width({.least = {48, 32}}) == 48);
  CHECK(width({.least = {1, 1}}) == 24);
  CHECK(width({.least = {1, 1}, .crop = {1, 1}}) == 24);  // it begins at pixel 4 of 24
}

TEST_CASE("JpegIsShrunkOnlyWhereEdgesStayBetweenPixels") {
  const auto width = [](int64_t wide, int64_t high, bool square) {
    Image image;
    const std::string bytes = encode_jpeg(test_picture(wide, high, 3));
    decode_image(bytes, "a.jpg", {.least = {1, 1}, .crop = square ? Size{1, 1} : Size{}}, image);
    return image.width;
  };
  CHECK(width(100, 64, false) == 25);
  CHECK(width(101, 64, false) == 101);
  CHECK(width(64, 50, false) == 32);
  CHECK(width(72, 64, false) == 9);
  CHECK(width(72, 64, true) == 18);  // the square begins 4 pixels from the left
}

TEST_CASE("JpegThatIsShrunkLooksLikeTheWholeOne") {
  const std::string bytes = encode_jpeg(quarters());
  Image image;
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string turned = with_orientation(bytes, orientation, true);
    const Size least = orientation < 5 ? Size{8, 16} : Size{16, 8};
    decode_image(turned, "a.jpg", {.least = least}, image);
    CHECK(image.width == (orientation < 5 ? 8 : 16));
    CHECK(arrangement(image) == arrangement(decode_image(turned, "a.jpg")));
  }
}

TEST_CASE("MemoryOfADecodedPictureIsUsedAgainAndLeavesNoTrace") {
  const std::string jpeg = encode_jpeg(test_picture(40, 24, 3));
  const std::string small = encode_png(test_picture(9, 5, 4));
  Image image;
  decode_image(jpeg, "a.jpg", {}, image);
  const uint8_t* memory = image.pixels.data();
  CHECK_FALSE(input_error([&] { decode_image(jpeg.substr(0, 400), "a.jpg", {}, image); }).empty());
  decode_image(small, "a.png", {}, image);
  CHECK(image.pixels == test_picture(9, 5, 4).pixels);
  decode_image(jpeg, "a.jpg", {}, image);
  CHECK(image.pixels.data() == memory);
  CHECK(image.pixels == decode_image(jpeg, "a.jpg").pixels);
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

TEST_CASE("JpegTooShortForTheSizeItAnnouncesIsRefusedByThat") {
  std::string bytes = encode_jpeg(test_picture(16, 16, 3));
  const size_t frame = bytes.find("\xff\xc0") + 5;  // height and width
  bytes[frame] = bytes[frame + 2] = 0x20;
  const std::string error = input_error([&] { decode_image(bytes, "j"); });
  CHECK(error.find("cannot hold the 8208x8208 pixels") != std::string::npos);
}

}  // namespace gantrain
