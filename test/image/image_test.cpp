// SPDX-License-Identifier: Apache-2.0
#include "image/image.h"

#include <stdexcept>

#include "support/catch.h"
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

using Pixels = std::vector<uint8_t>;

namespace {

Pixels convert(const Pixels& pixel, int64_t channels) {
  const Image image{1, 1, static_cast<int64_t>(pixel.size()), pixel};
  return with_channels(image, channels).pixels;
}

}  // namespace

TEST_CASE("ChannelsAddedAreGreyInEachColorAndOpaque") {
  CHECK(convert({77}, 2) == Pixels{77, 255});
  CHECK(convert({77}, 3) == Pixels{77, 77, 77});
  CHECK(convert({77}, 4) == Pixels{77, 77, 77, 255});
  CHECK(convert({77, 9}, 4) == Pixels{77, 77, 77, 9});
  CHECK(convert({1, 2, 3}, 4) == Pixels{1, 2, 3, 255});
}

TEST_CASE("ChannelsDroppedLeaveLumaOverWhite") {
  CHECK(convert({100, 100, 100}, 1) == Pixels{100});
  CHECK(convert({255, 0, 0}, 1) == Pixels{76});
  CHECK(convert({0, 255, 0}, 1) == Pixels{150});
  CHECK(convert({0, 0, 255}, 1) == Pixels{29});
  CHECK(convert({10, 20, 30, 0}, 3) == Pixels{255, 255, 255});
  CHECK(convert({10, 20, 30, 255}, 3) == Pixels{10, 20, 30});
  CHECK(convert({0, 100, 200, 51}, 3) == Pixels{204, 224, 244});
  CHECK(convert({0, 128}, 1) == Pixels{127});
  CHECK(convert({9, 9, 9, 128}, 2) == Pixels{9, 128});
}

TEST_CASE("ChannelsAreOneToFour") {
  CHECK_THROWS_AS(convert({1}, 0), std::invalid_argument);
  CHECK_THROWS_AS(convert({1}, 5), std::invalid_argument);
}

TEST_CASE("OrientationIsUndoneByItsInverse") {
  const Image image = test_picture(5, 3, 3);
  for (const int k : {1, 2, 3, 4, 5, 7})
    CHECK(oriented(oriented(image, k), k).pixels == image.pixels);
  CHECK(oriented(oriented(image, 6), 8).pixels == image.pixels);
}

TEST_CASE("PaddingIsWhiteOrTransparentAround") {
  const Image grey = padded({1, 1, 1, {7}}, 3, 2);
  CHECK(grey.pixels == Pixels{255, 7, 255, 255, 255, 255});
  const Image alpha = padded({1, 1, 2, {7, 9}}, 3, 1);
  CHECK(alpha.pixels == Pixels{255, 0, 7, 9, 255, 0});
}

TEST_CASE("TheCentralPartHasTheProportionsAndLiesInTheMiddle") {
  CHECK(central_part({100, 60}, {1, 1}) == Part{20, 0, {60, 60}});
  CHECK(central_part({60, 101}, {1, 1}) == Part{0, 20, {60, 60}});
  CHECK(central_part({1000, 800}, {256, 128}) == Part{0, 150, {1000, 500}});
  CHECK(central_part({1000, 800}, {128, 256}) == Part{300, 0, {400, 800}});
  CHECK(central_part({101, 75}, {2, 1}) == Part{0, 12, {101, 51}});  // 50.5 rows, rounded
}

TEST_CASE("TheCentralPartOfAPictureOfItsProportionsIsAllOfIt") {
  for (const Size& size : {Size{256, 128}, Size{5, 7}, Size{640, 896}, Size{1, 1}})
    CHECK(central_part(size, size) == Part{0, 0, size});
  CHECK(central_part({512, 256}, {256, 128}) == Part{0, 0, {512, 256}});
}

TEST_CASE("TheCentralPartIsNeverEmpty") {
  CHECK(central_part({1000, 1}, {4, 4000}) == Part{499, 0, {1, 1}});
  CHECK(central_part({1, 1000}, {4000, 4}) == Part{0, 499, {1, 1}});
}

}  // namespace gantrain
