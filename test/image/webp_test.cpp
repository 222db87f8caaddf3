// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

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

}  // namespace gantrain
