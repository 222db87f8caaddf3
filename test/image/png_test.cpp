// SPDX-License-Identifier: Apache-2.0
#include <png.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>

#include "support/catch.h"
#include "support/pictures.h"

namespace gantrain {

using Pixels = std::vector<uint8_t>;

namespace {

Image decode(const PngSpec& spec) { return decode_image(write_png(spec), "a.png"); }

void decode_png_bytes(std::string_view bytes) { decode_image(bytes, "a.png"); }

}  // namespace

TEST_CASE("PngOfOneToFourChannelsComesBackUnchanged") {
  const int64_t channels = GENERATE(1, 2, 3, 4);
  const Image image = test_picture(13, 7, channels);
  const Image back = decode_image(encode_png(image), "a.png");
  CHECK(back.channels == channels);
  CHECK(back.pixels == image.pixels);
  const ImageInfo info = image_info(encode_png(image), "a.png");
  CHECK(info.width == 13);
  CHECK(info.height == 7);
  CHECK(info.channels == channels);
}

TEST_CASE("PngWithFewGreyBitsSpansTheWholeRange") {
  CHECK(decode({4, 1, 1, PNG_COLOR_TYPE_GRAY, false, {0b01010000}}).pixels ==
        Pixels{0, 255, 0, 255});
  CHECK(decode({4, 1, 2, PNG_COLOR_TYPE_GRAY, false, {0b00011011}}).pixels ==
        Pixels{0, 85, 170, 255});
  CHECK(decode({2, 1, 4, PNG_COLOR_TYPE_GRAY, false, {0x3f}}).pixels == Pixels{51, 255});
}

TEST_CASE("PngOfSixteenBitsIsRoundedToTheNearest") {
  // 0x0080 is 0.498 of a step of 257, 0x0081 is 0.502; 0xff7e and 0xff7f likewise below 255.
  const Image image = decode(
      {4, 1, 16, PNG_COLOR_TYPE_GRAY, false, {0x00, 0x80, 0x00, 0x81, 0xff, 0x7e, 0xff, 0x7f}});
  CHECK(image.channels == 1);
  CHECK(image.pixels == Pixels{0, 1, 254, 255});
  const Image rgb = decode({1, 1, 16, PNG_COLOR_TYPE_RGB, false, {0xff, 0xff, 0x80, 0x80, 0, 0}});
  CHECK(rgb.pixels == Pixels{255, 128, 0});
  const Image alpha =
      decode({1, 1, 16, PNG_COLOR_TYPE_GRAY_ALPHA, false, {0x40, 0x40, 0xc0, 0xc0}});
  CHECK(alpha.channels == 2);
  CHECK(alpha.pixels == Pixels{64, 192});
}

TEST_CASE("PngPaletteBecomesRgbAndWithTransparencyRgba") {
  PngSpec spec = {2, 1, 8, PNG_COLOR_TYPE_PALETTE, false, {1, 0}, {10, 20, 30, 40, 50, 60}};
  CHECK(decode(spec).channels == 3);
  CHECK(decode(spec).pixels == Pixels{40, 50, 60, 10, 20, 30});
  spec.transparent = {7};
  CHECK(decode(spec).channels == 4);
  CHECK(decode(spec).pixels == Pixels{40, 50, 60, 255, 10, 20, 30, 7});
  CHECK(image_info(write_png(spec), "a.png").channels == 4);
}

TEST_CASE("PngGreyWithOneTransparentValueHasAlpha") {
  PngSpec spec = {2, 1, 8, PNG_COLOR_TYPE_GRAY, false, {9, 8}};
  spec.transparent_grey = 9;
  CHECK(decode(spec).channels == 2);
  CHECK(decode(spec).pixels == Pixels{9, 0, 8, 255});
}

TEST_CASE("PngInterlacedEqualsPlain") {
  const Image image = test_picture(19, 11, 3);
  PngSpec spec = {19, 11, 8, PNG_COLOR_TYPE_RGB, true, image.pixels};
  CHECK(decode(spec).pixels == image.pixels);
}

TEST_CASE("PngCutOffAnywhereIsRefusedByName") {
  const Image image = test_picture(9, 9, 3);
  CHECK(accepted_beginnings(encode_png(image), decode_png_bytes) == 0);
  PngSpec spec = {9, 9, 8, PNG_COLOR_TYPE_RGB, true, image.pixels};
  CHECK(accepted_beginnings(write_png(spec), decode_png_bytes) == 0);
  const std::string whole = encode_png(image);
  const std::string error =
      input_error([&] { decode_png_bytes(whole.substr(0, whole.size() / 2)); });
  CHECK(error == "a.png: broken PNG: the file ends too early");
}

TEST_CASE("PngWithDamagedBytesIsAnImageOrAnError") {
  const std::string bytes = encode_png(test_picture(16, 16, 3));
  const size_t accepted = accepted_damage(bytes, 3000, decode_png_bytes);
  CHECK(accepted < 1000);  // only what no checksum protects: chunks that say nothing of pixels
}

TEST_CASE("PngOfAbsurdSizeIsRefusedByItsSize") {
  std::string bytes = encode_png(test_picture(4, 4, 1));
  bytes[16] = 1;  // width 16777220
  const std::string error = input_error([&] { decode_png_bytes(bytes); });
  CHECK(error.find("is too large") != std::string::npos);
  bytes[16] = 0;
  bytes[18] = bytes[22] = 0x7f;  // 32516 x 32516: each side allowed, not their product
  CHECK(input_error([&] { decode_png_bytes(bytes); }).find("is too large") != std::string::npos);
}

TEST_CASE("PngTooShortForTheSizeItAnnouncesIsRefusedByThat") {
  PngSpec spec{.width = 4, .height = 4, .color_type = 2};
  spec.data.assign(48, 7);
  std::string bytes = write_png(spec);
  bytes[18] = bytes[22] = 0x20;  // 8196 x 8196: allowed, and 200 MB
  const std::string error = input_error([&] { decode_png_bytes(bytes); });
  CHECK(error.find("cannot hold the 8196x8196 pixels") != std::string::npos);
}

TEST_CASE("PngOfOneColorPackedAsWellAsDeflateCanIsRead") {
  PngSpec spec{.width = 8000, .height = 8000, .bit_depth = 1};
  spec.data.assign(1000 * 8000, 0xff);
  const std::string bytes = write_png(spec);
  CHECK(bytes.size() < 25'000);
  CHECK(decode_image(bytes, "p").pixels.size() == 64'000'000);
}

TEST_CASE("VerifyingAPngFindsWhatDecodingFinds") {
  PngSpec spec{.width = 13, .height = 7, .color_type = 2, .interlaced = GENERATE(false, true)};
  spec.data.assign(13 * 7 * 3, 9);
  const std::string bytes = write_png(spec);
  verify_image(bytes, "a.png");
  CHECK(accepted_beginnings(bytes, [](std::string_view part) { verify_image(part, "a"); }) == 0);
  accepted_damage(bytes, 1000, [](std::string_view damaged) {
    const auto verify = input_error([&] { verify_image(damaged, "a"); });
    const auto decode = input_error([&] { decode_image(damaged, "a"); });
    CHECK(verify == decode);
  });
}

namespace {

std::string with_exif_chunk(const Image& image, const std::string& content, bool behind) {
  return with_chunk(encode_png(image), png_chunk("eXIf", content), behind);
}

}  // namespace

TEST_CASE("PngExifOrientationIsAppliedBeforeAndBehindThePixels") {
  const bool behind = GENERATE(false, true), big_endian = GENERATE(false, true);
  const int64_t depth = GENERATE(8, 16);
  const Image image = in_depth(test_picture(13, 7, 3), depth);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    CAPTURE(orientation);
    const std::string mark = big_endian ? std::string("Exif\0\0", 6) : "";  // some write it, too
    const std::string bytes =
        with_exif_chunk(image, mark + exif_block(orientation, big_endian), behind);
    Image seen;
    decode_image(bytes, "a.png", {.depth = depth}, seen);
    CHECK(seen.width == (orientation < 5 ? 13 : 7));
    CHECK(seen.pixels == oriented(image, orientation).pixels);
    const ImageInfo info = image_info(bytes, "a.png");
    CHECK(Size{info.width, info.height} == Size{seen.width, seen.height});
  }
}

TEST_CASE("APngWithAHostileExifChunkIsReadAsItIsStored") {
  const Image image = test_picture(13, 7, 3);
  const bool behind = GENERATE(false, true);
  const std::string turned = exif_block(6, true);
  std::string many = turned.substr(0, 8) + "\xff\xff";  // entries, of which there is none
  std::string outside = turned;
  outside[4] = '\x7f';  // the directory
  for (const std::string& content : {std::string(),
                                     std::string("MM"),
                                     turned.substr(0, 18),
                                     exif_block(0, true),
                                     exif_block(9, false),
                                     many,
                                     outside}) {
    CHECK(decode_image(with_exif_chunk(image, content, behind), "a.png").pixels == image.pixels);
  }
  std::string damaged = with_exif_chunk(image, turned, behind);
  damaged[damaged.find(turned) + 19] = 5;  // its checksum is that of another orientation
  CHECK(decode_image(damaged, "a.png").pixels == image.pixels);
  accepted_damage(with_exif_chunk(image, turned, behind), 2000, [](std::string_view bytes) {
    const Image seen = decode_image(bytes, "a.png");
    const ImageInfo info = image_info(bytes, "a.png");
    CHECK(Size{info.width, info.height} == Size{seen.width, seen.height});
  });
}

// Sanitizers take all the addresses there are for themselves.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("VerifyingAPngTakesMemoryForOneRow") {
  const std::string bytes =
      encode_png({12'000, 12'000, 1, std::vector<uint8_t>(144'000'000)}, 1);  // 144 MB decoded
  const auto exit_code_with_64_mb = [&](const auto& action) {
    const pid_t child = fork();
    if (child == 0) {
      const rlim_t most = rlim_t{64} << 20;
      const rlimit limit = {most, most};
      setrlimit(RLIMIT_DATA, &limit);
      try {
        action();
      } catch (const std::bad_alloc&) {
        _exit(1);
      }
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  CHECK(exit_code_with_64_mb([&] { verify_image(bytes, "a.png"); }) == 0);
  CHECK(exit_code_with_64_mb([&] { decode_image(bytes, "a.png"); }) == 1);
}
#endif

}  // namespace gantrain
