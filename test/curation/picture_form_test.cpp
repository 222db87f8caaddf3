// SPDX-License-Identifier: Apache-2.0
#include <png.h>

#include <catch2/catch.hpp>

#include "curation/picture_look.h"
#include "support/pictures.h"

namespace gantrain {
namespace {

TEST_CASE("FormsOfPngAreReadFromTheHeader") {
  const PictureForm palette = form_of(write_png({.width = 2,
                                                 .height = 1,
                                                 .color_type = PNG_COLOR_TYPE_PALETTE,
                                                 .data = {0, 1},
                                                 .palette = {255, 0, 0, 0, 255, 0},
                                                 .transparent = {0, 255}}));
  CHECK(palette.format == "PNG");
  CHECK(palette.palette);
  CHECK(palette.alpha);
  const PictureForm deep = form_of(write_png({.width = 1,
                                              .height = 1,
                                              .bit_depth = 16,
                                              .color_type = PNG_COLOR_TYPE_GRAY,
                                              .data = {1, 2}}));
  CHECK(deep.bits == 16);
  CHECK(deep.grey);
  CHECK_FALSE(deep.alpha);
  CHECK(form_of(encode_png(test_picture(4, 4, 4))).alpha);
}

TEST_CASE("FormsOfJpegAreReadBehindAnyMarkers") {
  CHECK(form_of(encode_jpeg(test_picture(16, 16, 1))).grey);
  CHECK_FALSE(form_of(encode_jpeg(test_picture(16, 16, 3))).grey);
  const std::string turned = with_orientation(encode_jpeg(test_picture(16, 16, 1)), 6, true);
  CHECK(form_of(turned).grey);
  const PictureForm cmyk = form_of(write_cmyk_jpeg(8, 8, {255, 0, 0, 255}));
  CHECK(cmyk.format == "JPEG");
  CHECK(cmyk.cmyk);
}

TEST_CASE("AlphaOfWebpIsSeen") {
  CHECK(form_of(encode_webp(test_picture(16, 16, 4), 100)).alpha);
  CHECK(form_of(encode_webp(test_picture(16, 16, 4), 80)).alpha);
  CHECK_FALSE(form_of(encode_webp(test_picture(16, 16, 3), 80)).alpha);
}

TEST_CASE("BrokenHeadersEndTheReading") {
  for (const std::string& whole : {encode_png(test_picture(4, 4, 3)),
                                   encode_jpeg(test_picture(16, 16, 3)),
                                   encode_webp(test_picture(16, 16, 4), 80)}) {
    for (size_t size = 0; size < std::min<size_t>(whole.size(), 200); ++size)
      CHECK_NOTHROW(form_of(std::string_view(whole).substr(0, size)));
  }
}

}  // namespace
}  // namespace gantrain
