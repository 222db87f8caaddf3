// SPDX-License-Identifier: Apache-2.0
#include <webp/demux.h>

#include <cstdlib>

#include "image/image.h"
#include "support/catch.h"
#include "support/pictures.h"

namespace gantrain {

namespace {

void decode_webp_bytes(std::string_view bytes) { decode_image(bytes, "a.webp"); }

}  // namespace

TEST_CASE("WebpLosslessComesBackUnchanged") {
  const int64_t channels = GENERATE(3, 4);
  Image image = test_picture(13, 7, channels);
  const Image back = decode_image(encode_webp(image, 100), "a.webp");
  CHECK(back.channels == channels);
  CHECK(back.pixels == image.pixels);
}

TEST_CASE("WebpLossyIsNear") {
  const Image image = test_picture(64, 48, 1);
  const Image back = decode_image(encode_webp(image, 95), "a.webp");
  CHECK(back.channels == 3);
  CHECK(back.width == 64);
  CHECK(std::abs(back.pixels[0] - image.pixels[0]) <= 12);
}

TEST_CASE("WebpCutOffAnywhereIsRefusedByName") {
  const std::string lossy = encode_webp(test_picture(24, 24, 3), 80);
  const std::string lossless = encode_webp(test_picture(24, 24, 4), 100);
  // RIFF pads chunks to even sizes; a missing pad byte at the very end loses nothing.
  CHECK(accepted_beginnings(lossy, decode_webp_bytes) <= 1);
  CHECK(accepted_beginnings(lossless, decode_webp_bytes) <= 1);
  const std::string error =
      input_error([&] { decode_webp_bytes(lossy.substr(0, lossy.size() / 2)); });
  CHECK(error == "a.webp: broken WebP: the file ends too early");
}

TEST_CASE("WebpWithDamagedBytesIsAnImageOrAnError") {
  const std::string lossy = encode_webp(test_picture(24, 24, 4), 80);
  accepted_damage(lossy, 2000, decode_webp_bytes);
  const std::string lossless = encode_webp(test_picture(24, 24, 3), 100);
  accepted_damage(lossless, 2000, decode_webp_bytes);
}

TEST_CASE("WebpExifOrientationIsApplied") {
  const bool marked = GENERATE(false, true);
  const int64_t channels = GENERATE(3, 4);
  const Image image = test_picture(13, 7, channels);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    CAPTURE(orientation);
    const std::string mark = marked ? std::string("Exif\0\0", 6) : "";
    const std::string bytes = with_exif(
        encode_webp(image, 100), {13, 7}, mark + exif_block(orientation, orientation % 2 == 0));
    const Image seen = decode_image(bytes, "a.webp");
    CHECK(seen.width == (orientation < 5 ? 13 : 7));
    CHECK(seen.pixels == oriented(with_channels(image, seen.channels), orientation).pixels);
    const ImageInfo info = image_info(bytes, "a.webp");
    CHECK(Size{info.width, info.height} == Size{seen.width, seen.height});
  }
}

TEST_CASE("AWebpWithAHostileExifChunkIsReadAsItIsStored") {
  const Image image = test_picture(13, 7, 3);
  const std::string webp = encode_webp(image, 100), turned = exif_block(6, true);
  for (const std::string& content :
       {std::string(), std::string("II*"), turned.substr(0, 18), exif_block(9, true)}) {
    CHECK(decode_image(with_exif(webp, {13, 7}, content), "a").pixels == image.pixels);
  }
  std::string whole = with_exif(webp, {13, 7}, turned);
  CHECK(accepted_beginnings(whole, decode_webp_bytes) <= 1);
  accepted_damage(whole, 2000, [](std::string_view bytes) {
    const Image seen = decode_image(bytes, "a");
    const ImageInfo info = image_info(bytes, "a");
    CHECK(Size{info.width, info.height} == Size{seen.width, seen.height});
  });
  whole[20] = 0;  // the header does not announce it
  CHECK(decode_image(whole, "a").pixels == image.pixels);
}

namespace {

struct Shown {
  Image image;  // RGBA
  int end = 0;  // milliseconds
};

struct Film {
  WebPAnimInfo info = {};
  std::vector<Shown> frames;
};

// The other way round, by libwebp's own player.
Film play(const std::string& file) {
  const WebPData data = {reinterpret_cast<const uint8_t*>(file.data()), file.size()};
  WebPAnimDecoder* decoder = WebPAnimDecoderNew(&data, nullptr);
  REQUIRE(decoder != nullptr);
  Film film;
  REQUIRE(WebPAnimDecoderGetInfo(decoder, &film.info));
  const auto bytes = size_t{4} * film.info.canvas_width * film.info.canvas_height;
  while (WebPAnimDecoderHasMoreFrames(decoder)) {
    uint8_t* pixels = nullptr;
    int end = 0;
    REQUIRE(WebPAnimDecoderGetNext(decoder, &pixels, &end));
    film.frames.push_back({{film.info.canvas_width, film.info.canvas_height, 4, {}}, end});
    film.frames.back().image.pixels.assign(pixels, pixels + bytes);
  }
  WebPAnimDecoderDelete(decoder);
  return film;
}

// Frame i of a film: a test picture that moves.
Image moved(int64_t i, int64_t channels) {
  Image image = test_picture(20, 12, channels);
  for (size_t k = 0; k < image.pixels.size(); ++k)
    image.pixels[k] = static_cast<uint8_t>(image.pixels[k] + 7 * i);
  return image;
}

std::string film_of(int64_t count, int64_t channels, const AnimationOptions& options) {
  WebpAnimation animation(20, 12, options);
  for (int64_t i = 0; i < count; ++i) animation.add(moved(i, channels));
  return animation.finish();
}

// The picture as a player shows it: RGBA.
Image shown(const Image& image) {
  Image result{image.width, image.height, 4, {}};
  const bool colour = image.channels >= 3;
  for (int64_t i = 0; i < image.width * image.height; ++i) {
    const uint8_t* p = image.pixels.data() + i * image.channels;
    for (int c = 0; c < 3; ++c) result.pixels.push_back(p[colour ? c : 0]);
    result.pixels.push_back(image.channels % 2 == 0 ? p[image.channels - 1] : 255);
  }
  return result;
}

}  // namespace

TEST_CASE("LosslessAnimationsComeBackUnchanged") {
  const int64_t channels = GENERATE(1, 3);
  const Film film = play(film_of(5, channels, {.quality = 100}));
  CHECK(film.info.canvas_width == 20);
  CHECK(film.info.canvas_height == 12);
  REQUIRE(film.frames.size() == 5);
  for (int64_t i = 0; i < 5; ++i) {
    CAPTURE(i);
    CHECK(film.frames[static_cast<size_t>(i)].image.pixels == shown(moved(i, channels)).pixels);
  }
}

TEST_CASE("LossyAnimationsAreNear") {
  const Film film = play(film_of(3, 3, {.quality = 95}));
  REQUIRE(film.frames.size() == 3);
  for (int64_t i = 0; i < 3; ++i) {
    const Image expected = shown(moved(i, 3));
    double sum = 0;
    for (size_t k = 0; k < expected.pixels.size(); ++k)
      sum += std::abs(film.frames[static_cast<size_t>(i)].image.pixels[k] - expected.pixels[k]);
    CHECK(sum / static_cast<double>(expected.pixels.size()) < 16);
  }
  CHECK(film_of(3, 3, {.quality = 20}).size() < film_of(3, 3, {.quality = 95}).size());
}

TEST_CASE("AnimationsKeepTheirTime") {
  const Film film = play(film_of(6, 3, {.fps = 30}));
  REQUIRE(film.frames.size() == 6);
  const std::vector<int> ends = {33, 67, 100, 133, 167, 200};
  for (size_t i = 0; i < 6; ++i) CHECK(film.frames[i].end == ends[i]);
  CHECK(film.info.loop_count == 0);
  const Film slow = play(film_of(2, 3, {.fps = 4, .loops = 3}));
  CHECK(slow.frames.at(0).end == 250);
  CHECK(slow.frames.at(1).end == 500);
  CHECK(slow.info.loop_count == 3);
}

TEST_CASE("EqualFramesInARowAreOneShownForAsLong") {
  WebpAnimation animation(20, 12, {.fps = 10, .quality = 100});
  for (const int64_t i : {0, 1, 1, 1, 2}) animation.add(moved(i, 3));
  const Film film = play(animation.finish());
  REQUIRE(film.frames.size() == 3);
  CHECK(film.frames[1].end == 400);
  CHECK(film.frames[2].end == 500);
  CHECK(film.frames[2].image.pixels == shown(moved(2, 3)).pixels);
}

TEST_CASE("TransparentFramesKeepTheirAlpha") {
  Image first = moved(0, 4), second = moved(1, 4);
  WebpAnimation animation(20, 12, {.quality = 100});
  animation.add(first);
  animation.add(second);
  const Film film = play(animation.finish());
  REQUIRE(film.frames.size() == 2);
  for (size_t k = 3; k < first.pixels.size(); k += 4) {
    CHECK(film.frames[0].image.pixels[k] == first.pixels[k]);
    CHECK(film.frames[1].image.pixels[k] == second.pixels[k]);
  }
}

TEST_CASE("AFrameOfAnotherSizeIsRefused") {
  WebpAnimation animation(20, 12, {});
  CHECK_THROWS_AS(animation.add(test_picture(12, 20, 3)), std::invalid_argument);
  CHECK_THROWS_AS(WebpAnimation(kMaxWebpSide + 1, 1, {}), std::invalid_argument);
}

}  // namespace gantrain
