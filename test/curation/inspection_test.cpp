// SPDX-License-Identifier: Apache-2.0
#include "curation/inspection.h"

#include <png.h>

#include "data/picture_files.h"
#include "data/pictures/dataset.h"
#include "image/resize.h"
#include "support/catch.h"
#include "support/pictures.h"
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

Inspection pictures(std::map<std::pair<int64_t, int64_t>, int64_t> sizes) {
  Inspection inspection;
  inspection.path = "my photos";
  inspection.sizes = std::move(sizes);
  for (const auto& [size, count] : inspection.sizes) inspection.pictures += count;
  return inspection;
}

TEST_CASE("TheResolutionEnlargesFewPictures") {
  CHECK(advise(pictures({{{700, 700}, 10}, {{500, 510}, 90}}), true).resolution == square_of(256));
  CHECK(advise(pictures({{{64, 64}, 5}, {{512, 512}, 95}}), true).resolution == square_of(512));
  CHECK(advise(pictures({{{64, 64}, 50}, {{512, 512}, 50}}), true).resolution == square_of(64));
  CHECK(advise(pictures({{{9000, 9000}, 1}}), true).resolution == square_of(1024));
  CHECK(advise(pictures({{{16, 16}, 1}}), true).resolution == square_of(16));
  CHECK(advise(pictures({{{28, 28}, 1}}), true).resolution == square_of(28));
  CHECK(advise(pictures({{{8, 8}, 1}}), true).resolution == square_of(8));
  CHECK(advise(pictures({{{5, 5}, 1}}), true).resolution == square_of(8));
}

TEST_CASE("PicturesOfOneOblongShapeGetARectangularNetwork") {
  CHECK(advise(pictures({{{512, 256}, 100}}), true).resolution == Size{512, 256});
  CHECK(advise(pictures({{{300, 600}, 100}}), true).resolution == Size{256, 512});
  CHECK(advise(pictures({{{512, 256}, 50}, {{256, 512}, 50}}), true).resolution == square_of(256));
}

TEST_CASE("GammaFollowsTheResolutionAndTheBatchOfOneGpu") {
  const Advice advice = advise(pictures({{{256, 256}, 20000}}), true);
  CHECK(advice.preset == "stylegan2");
  CHECK(advice.batch == 16);
  CHECK(advice.gamma == Approx(0.0002 * 65536 / 16));
  CHECK(advise(pictures({{{128, 128}, 500}}), true).batch == 32);
}

TEST_CASE("FewPicturesAreAugmentedAndACpuGetsASmallNetwork") {
  const Inspection few = pictures({{{512, 256}, 500}});
  CHECK(advise(few, true).preset == "stylegan2-ada");
  const Advice here = advise(few, false);
  CHECK(here.preset == "stylegan2-ada");
  CHECK(train_command(few, here) ==
        "gantrain --preset stylegan2-tiny --data 'my photos' --resolution 64x32");
}

TEST_CASE("SmallPicturesAreTrainedAtTheirOwnSizeOnACpuToo") {
  const Inspection small = pictures({{{16, 16}, 500}});
  const Advice here = advise(small, false);
  CHECK(here.resolution_here == square_of(16));
  for (const std::string& reason : here.reasons) CHECK(!contains(reason, "enlarged"));
}

TEST_CASE("TheReportEndsWithTheCommandToStartWith") {
  Inspection small = pictures({{{64, 64}, 500}});
  small.bad = {{"a.png", "a.png: broken"}};
  Advice advice = advise(small, true);
  advice.more = " --set data.labels=none";
  const std::string command =
      "gantrain --preset stylegan2-ada --data 'my photos' --resolution 64 --set data.labels=none "
      "--set data.on_bad=skip";
  CHECK(contains(inspection_text(small, advice, false), "\nstart      " + command + "\n"));
  CHECK(inspection_json(small, advice)["start"] == command);
  CHECK(contains(inspection_text(small, advice, false), "help small"));
  for (const std::string& reason : advise(pictures({{{64, 64}, 50000}}), true).reasons)
    CHECK(!contains(reason, "help small"));
}

TEST_CASE("ClassesAreUsed") {
  Inspection inspection = pictures({{{64, 64}, 500}});
  inspection.classes = {{"cat", 250}, {"dog", 250}};
  CHECK(train_command(inspection, advise(inspection, true)) ==
        "gantrain --preset stylegan2-ada --data 'my photos' --resolution 64 --cond on");
}

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

std::shared_ptr<const Dataset> shapes(int64_t count, int64_t side) {
  DataOptions options;
  options.synth_size = count;
  options.resolution = square_of(side);
  return open_dataset(options);
}

TEST_CASE("CopiesThatWereCompressedAgainLookAlike") {
  const auto pictures = shapes(40, 96);
  for (int64_t i = 0; i < pictures->size(); ++i) {
    CAPTURE(i);
    const Image picture = pictures->load(i);
    const Look look = look_of(picture);
    CHECK(look_alike(look, look_of(decode_image(encode_jpeg(picture, 50), "a"))));
    CHECK(look_alike(look, look_of(decode_image(encode_webp(picture, 60), "a"))));
  }
}

TEST_CASE("ResizedCopiesLookAlike") {
  const auto pictures = shapes(40, 96);
  for (int64_t i = 0; i < pictures->size(); ++i) {
    CAPTURE(i);
    const Image picture = pictures->load(i);
    for (const Size size : {Size{64, 64}, Size{150, 150}, Size{48, 48}}) {
      const Image other = resize(picture, size, Filter::kLanczos);
      CHECK(look_alike(look_of(picture), look_of(decode_image(encode_jpeg(other, 80), "a"))));
    }
  }
}

TEST_CASE("DifferentIconsDoNotLookAlike") {
  const auto pictures = shapes(2000, 32);
  LookAlikes looks;
  int64_t alike = 0;
  for (int64_t i = 0; i < pictures->size(); ++i)
    alike += looks.add(i, look_of(pictures->load(i))) ? 1 : 0;
  CHECK(alike == 0);
}

// White paper with one small dot that is elsewhere each time.
TEST_CASE("ADotElsewhereIsAnotherPicture") {
  LookAlikes looks;
  for (int64_t i = 0; i < 100; ++i) {
    Image page{.width = 64, .height = 64, .channels = 1, .pixels = {}};
    page.pixels.assign(64 * 64, 255);
    const int64_t x = i % 10 * 6 + 2, y = i / 10 * 6 + 2;
    for (int64_t row = y; row < y + 4; ++row) {
      for (int64_t column = x; column < x + 4; ++column)
        page.pixels[static_cast<size_t>(row * 64 + column)] = 0;
    }
    CHECK_FALSE(looks.add(i, look_of(page)));
  }
}

TEST_CASE("StretchedPicturesDoNotLookAlike") {
  const Image picture = shapes(1, 64)->load(0);
  CHECK_FALSE(look_alike(look_of(picture), look_of(resize(picture, Size{64, 48}, Filter::kBox))));
}

TEST_CASE("EachCopyIsFoundAmongManyPictures") {
  const auto pictures = shapes(3000, 32);
  LookAlikes looks;
  for (int64_t i = 0; i < pictures->size(); ++i) looks.add(i, look_of(pictures->load(i)));
  for (int64_t i = 0; i < pictures->size(); i += 30) {
    CAPTURE(i);
    const Image copy = resize(pictures->load(i), Size{64, 64}, Filter::kBicubic);
    CHECK(looks.add(pictures->size() + i, look_of(copy)) == i);
  }
}

// A grid of neighbours is searched, so a copy that falls into the next cell is found as well.
TEST_CASE("CopiesAcrossTheEdgeOfACellAreFound") {
  for (int level = 20; level < 220; ++level) {
    Image one = test_picture(32, 32, 3);
    for (uint8_t& pixel : one.pixels) pixel = static_cast<uint8_t>((pixel / 8) + level);
    Image other = one;
    for (uint8_t& pixel : other.pixels) pixel = static_cast<uint8_t>(pixel + 1);
    LookAlikes looks;
    CHECK_FALSE(looks.add(0, look_of(one)));
    CAPTURE(level);
    CHECK(looks.add(1, look_of(other)) == 0);
  }
}

}  // namespace

}  // namespace gantrain
