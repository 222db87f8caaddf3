// SPDX-License-Identifier: Apache-2.0
#include "curation/inspection.h"

#include <catch2/catch.hpp>

#include "curation/inspection_text.h"
#include "data/picture_files.h"
#include "image/resize.h"
#include "util/error.h"

namespace gantrain {
namespace {

Inspection inspect(const std::string& path) {
  InspectRequest request;
  request.path = path;
  return inspect_data(request, {});
}

TEST_CASE("InspectionCountsSizesFormsAndClasses") {
  const Scratch scratch;
  scratch.write("in/a/1.png", png(40, 30, 1));
  scratch.write("in/a/2.jpg", encode_jpeg(test_picture(64, 64, 3)));
  scratch.write("in/b/3.png", png(64, 64, 4));
  scratch.write("in/b/4.jpg", with_orientation(encode_jpeg(test_picture(48, 32, 3)), 6, false));
  scratch.write("in/b/5.jpg", write_cmyk_jpeg(16, 16, {255, 9, 9, 255}));
  scratch.write("in/b/notes.txt", "seen");
  const Inspection found = inspect(scratch.path("in"));
  CHECK(found.pictures == 5);
  CHECK(found.others == 1);
  CHECK(found.formats == std::map<std::string, int64_t>{{"PNG", 2}, {"JPEG", 3}});
  CHECK(found.forms.at("grey") == 1);
  CHECK(found.forms.at("RGB") == 4);
  CHECK(found.forms.at("alpha") == 1);
  CHECK(found.forms.at("CMYK") == 1);
  CHECK(found.sizes.at({64, 64}) == 2);
  CHECK(found.sizes.at({32, 48}) == 1);  // as it is seen
  REQUIRE(found.classes.size() == 2);
  CHECK(found.classes[1].name == "b");
  CHECK(found.classes[1].pictures == 3);
}

// Two of MNIST's pictures, of which one begins as a JPEG does and one as a PNG.
TEST_CASE("PixelsOfRecordsAreNotTakenForFiles") {
  const Scratch scratch;
  std::string idx("\0\0\x08\x03\0\0\0\x02\0\0\0\x1c\0\0\0\x1c", 16);
  for (const char* begin : {"\xff\xd8", "\x89PNG"}) {
    std::string pixels(28 * 28, '\x40');
    idx += pixels.replace(0, std::string(begin).size(), begin);
  }
  scratch.write("train-images-idx3-ubyte", idx);
  const Inspection found = inspect(scratch.path("train-images-idx3-ubyte"));
  CHECK(found.pictures == 2);
  CHECK(found.bad.empty());
  CHECK(found.formats == std::map<std::string, int64_t>{{"raw", 2}});
  CHECK(found.forms == std::map<std::string, int64_t>{{"grey", 2}});
}

TEST_CASE("AllBadFilesAreListed") {
  const Scratch scratch;
  scratch.write("in/good.png", png(16, 16, 3));
  for (int i = 0; i < 30; ++i) scratch.write(fmt::format("in/bad{:02}.png", i), "text");
  const std::string jpeg = encode_jpeg(test_picture(64, 64, 3));
  scratch.write("in/cut.jpg", jpeg.substr(0, jpeg.size() / 2));
  scratch.write("in/empty.webp", "");
  InspectRequest request;
  request.path = scratch.path("in");
  request.bad = scratch.path("bad.txt");
  const Inspection found = inspect_data(request, {});
  CHECK(found.pictures == 1);
  REQUIRE(found.bad.size() == 32);
  CHECK(contains(found.bad[0].file, "in/bad00.png"));
  const std::string text = inspection_text(found, advise(found, true), false);
  const std::string list = read_file(request.bad);
  for (const BadFile& bad : found.bad) {
    CHECK(contains(text, bad.reason));
    CHECK(contains(list, bad.file));
  }
}

TEST_CASE("CopiesAndLookAlikesAreTold") {
  const Scratch scratch;
  DataOptions shapes;
  shapes.resolution = square_of(64);
  const auto pictures = open_dataset(shapes);
  for (int64_t i = 0; i < 20; ++i)
    scratch.write(fmt::format("in/{:02}.png", i), encode_png(pictures->load(i)));
  scratch.write("in/copy.png", encode_png(pictures->load(3)));
  scratch.write("in/small.jpg",
                encode_jpeg(resize(pictures->load(7), Size{48, 48}, Filter::kLanczos), 70));
  const Inspection found = inspect(scratch.path("in"));
  CHECK(found.copies == std::vector<CopyGroup>{{"03.png", "copy.png"}});
  CHECK(found.look_alikes == std::vector<CopyGroup>{{"07.png", "small.jpg"}});
  const Json json = inspection_json(found, advise(found, false));
  CHECK(json["exact_duplicates"][0][1] == "copy.png");
  CHECK(json["near_duplicates"][0][1] == "small.jpg");
}

TEST_CASE("TheSheetShowsPicturesOfTheWholeSet") {
  const Scratch scratch;
  for (int i = 0; i < 7; ++i)
    scratch.write(fmt::format("in/{}.png", i), one_color(static_cast<uint8_t>(30 * i)));
  InspectRequest request;
  request.path = scratch.path("in");
  request.sheet = scratch.path("sheet.png");
  inspect_data(request, {});
  const Image sheet = decode_image(read_file(request.sheet), "sheet");
  CHECK(sheet.width == 3 * 96);
  CHECK(sheet.height == 3 * 96);
  const auto pixel = [&](int64_t column, int64_t row) {
    return int{
        sheet.pixels[static_cast<size_t>(((row * 96 + 48) * sheet.width + column * 96 + 48) * 3)]};
  };
  CHECK(pixel(0, 0) == 0);
  CHECK(pixel(1, 1) == 120);
  CHECK(pixel(0, 2) == 180);
  CHECK(pixel(2, 2) == 255);  // nothing is left to show
}

TEST_CASE("AStopEndsTheInspection") {
  const Scratch scratch;
  for (int i = 0; i < 200; ++i) scratch.write(fmt::format("in/{}.png", i), png(64, 64, 3));
  InspectRequest request;
  request.path = scratch.path("in");
  request.bad = scratch.path("bad.txt");
  CHECK(inspect_data(request, {.stop = [] { return true; }}).stopped);
  CHECK_FALSE(std::filesystem::exists(request.bad));
}

}  // namespace
}  // namespace gantrain
