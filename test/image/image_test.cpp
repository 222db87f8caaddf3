// SPDX-License-Identifier: Apache-2.0
#include "image/image.h"

#include <catch2/catch.hpp>
#include <stdexcept>

#include "support/pictures.h"

namespace gantrain {

TEST_CASE("ImageNamesAreToldByTheirEndingInAnyCase") {
  for (const char* name : {"a.png", "b.JPG", "c/d.Jpeg", "e.webp", ".png"}) {
    CHECK(is_image_name(name));
  }
  for (const char* name : {"png", "a.gif", "a.png.txt", "", "a.", "jpeg/x"}) {
    CHECK_FALSE(is_image_name(name));
  }
}

TEST_CASE("ImageIsRecognisedByContentNotByName") {
  const Image image = test_picture(5, 4, 3);
  CHECK(decode_image(encode_png(image), "really.jpg").pixels == image.pixels);
  CHECK(decode_image(encode_jpeg(image), "really.png").width == 5);
}

TEST_CASE("ImageThatIsNoneIsNamed") {
  CHECK(input_error([] { decode_image("", "x.png"); }) == "x.png: empty file");
  CHECK(input_error([] { verify_image("GIF89a...", "x.png"); }) ==
        "x.png: not a PNG, JPEG or WebP picture");
  CHECK(input_error([] { image_info("RIFF1234WAVEfmt ", "x"); }) ==
        "x: not a PNG, JPEG or WebP picture");
}

TEST_CASE("ImageThatContradictsItselfIsNotEncoded") {
  Image image = test_picture(4, 4, 3);
  image.pixels.pop_back();
  CHECK_THROWS_AS(encode_png(image), std::invalid_argument);
  CHECK_THROWS_AS(encode_jpeg(image), std::invalid_argument);
  CHECK_THROWS_AS(encode_webp(image), std::invalid_argument);
}

}  // namespace gantrain
