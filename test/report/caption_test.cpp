// SPDX-License-Identifier: Apache-2.0
#include "report/grid.h"
#include "support/catch.h"

using namespace gantrain;

namespace {

Image grey(int64_t width, int64_t height, int64_t channels) {
  return {width, height, channels, std::vector<uint8_t>(size_t(width * height * channels), 77)};
}

// The picture's first channel, a line each row: ink "#", ground ".", untouched " ".
std::string drawn(const Image& image) {
  std::string text;
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x) {
      const uint8_t value = image.pixels[size_t((y * image.width + x) * image.channels)];
      text += value == 255 ? '#' : value == 0 ? '.' : ' ';
    }
    text += '\n';
  }
  return text;
}

}  // namespace

TEST_CASE("ACaptionIsWrittenInWhiteOnBlack") {
  Image image = grey(15, 12, 3);
  draw_caption(image, 2, 1, 12, "L1");
  CHECK(drawn(image) ==
        "               \n"
        "  ............ \n"
        "  ............ \n"
        "  #.......#... \n"
        "  #......##... \n"
        "  #.......#... \n"
        "  #.......#... \n"
        "  #.......#... \n"
        "  #.......#... \n"
        "  #####..###.. \n"
        "  ............ \n"
        "  ............ \n");
}

TEST_CASE("TheEndOfALongCaptionIsSeen") {
  Image all = grey(12, 11, 1), end = grey(12, 11, 1);
  draw_caption(all, 0, 0, 12, "seed0042");
  draw_caption(end, 0, 0, 12, "42");
  CHECK(all.pixels == end.pixels);
}

TEST_CASE("ACaptionStaysInsideItsPictureAndIsOpaque") {
  Image image = grey(9, 9, 4);
  draw_caption(image, 3, -4, 40, "wide", 2);
  CHECK(image.pixels[3] == 77);
  CHECK(image.pixels[4 * 3 + 3] == 255);
  draw_caption(image, 0, 0, 3, "narrow");  // no letter has room
  CHECK(image.pixels[0] == 0);
}
