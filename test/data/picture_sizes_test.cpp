// SPDX-License-Identifier: Apache-2.0
#include "data/containers/source.h"
#include "data/options.h"
#include "data/picture_files.h"
#include "support/catch.h"

namespace gantrain {

namespace {

PictureSizes sizes(std::vector<SizeCount> counts, int64_t pictures) {
  return {.counts = std::move(counts), .pictures = pictures};
}

DataOptions brought_to(const Size& size, Fit fit = Fit::kCrop) {
  DataOptions options;
  options.resolution = size;
  options.fit = fit;
  return options;
}

}  // namespace

TEST_CASE("TheCommonestSizeIsTypicalWhereHalfOfThePicturesHaveIt") {
  const PictureSizes half = sizes({{{64, 64}, 2}, {{100, 50}, 1}, {{20, 90}, 1}}, 4);
  CHECK(half.commonest() == Size{64, 64});
  CHECK(half.typical() == Size{64, 64});
  const PictureSizes less = sizes({{{64, 64}, 2}, {{100, 50}, 1}, {{30, 90}, 1}, {{9, 8}, 1}}, 5);
  CHECK_FALSE(less.commonest());
  CHECK(less.typical() == square_of(50));  // of 8, 30, 50, 64, 64
  CHECK_FALSE(PictureSizes().commonest());
}

TEST_CASE("SizesAreSaidWithHowManyPicturesWereLookedAt") {
  CHECK(sizes_text(sizes({{{64, 48}, 4}}, 4)) == "64x48");
  CHECK(sizes_text(sizes({{{64, 48}, 4}}, 9)) == "64x48 (4 of 9 looked at)");
  CHECK(sizes_text(sizes({{{64, 64}, 2}, {{100, 50}, 1}}, 3)) ==
        "2 sizes from 64x64 to 100x50, 64x64 in 2 of 3");
  CHECK(sizes_text({}) == "unknown sizes");
}

TEST_CASE("PicturesThatAreEnlargedTwiceAreWarnedOf") {
  const PictureSizes of = sizes({{{64, 64}, 3}, {{256, 256}, 1}}, 4);
  CHECK(contains(enlargement_warning(of, brought_to(square_of(256))),
                 "data.resolution = 256: 3 of 4 pictures are enlarged to twice their size or more, "
                 "a typical one of 64x64 4 times"));
  CHECK(contains(enlargement_warning(of, brought_to(square_of(128))), "3 of 4"));
  CHECK(enlargement_warning(of, brought_to(square_of(124))).empty());
  const PictureSizes one_of_many = sizes({{{256, 256}, 3}, {{64, 64}, 1}}, 4);
  CHECK(enlargement_warning(one_of_many, brought_to(square_of(256))).empty());
  // Bars are added to the shorter side, and what is cut off is not enlarged less.
  const PictureSizes wide = sizes({{{256, 64}, 1}}, 1);
  CHECK(enlargement_warning(wide, brought_to(square_of(256), Fit::kPad)).empty());
  CHECK(contains(enlargement_warning(wide, brought_to(square_of(256))), "4 times"));
  CHECK(enlargement_warning({}, brought_to(square_of(256))).empty());
}

TEST_CASE("TheLineOfTheDataNamesSizesAlphaAndWhatIsIgnored") {
  const Scratch scratch;
  const std::string path = lay_out(scratch,
                                   {{"a.png", png(16, 16, 4)},
                                    {"b.png", png(16, 16, 3)},
                                    {"c.png", png(40, 16, 3)},
                                    {"d.GIF", "x"},
                                    {"e.gif", "x"},
                                    {"f.bmp", "x"}},
                                   any_kind());
  const std::string text = open_dataset(at(path))->description();
  CHECK(contains(text, "3 pictures of 2 sizes from 16x16 to 40x16, 16x16 in 2 of 3, trained at "));
  CHECK(contains(text, "trained at 16x16x3, alpha of 1 laid over white"));
  CHECK(contains(text, ", 2 .gif, 1 .bmp ignored: convert"));
  DataOptions kept = at(path);
  kept.channels = 4;
  CHECK_FALSE(contains(open_dataset(kept)->description(), "alpha"));
  CHECK(open_dataset(at(path, 64))->warnings().size() == 1);
  CHECK(open_dataset(at(path))->warnings().empty());
  const Scratch same;
  CHECK(contains(
      open_dataset(at(lay_out(same, {{"a.png", png(16, 16, 3)}}, "folder")))->description(),
      "1 picture, 16x16x3"));
}

namespace {

// Hardly anything of it can be packed.
Image noise(int64_t width, int64_t height) {
  Image image{.width = width, .height = height, .channels = 3};
  uint32_t state = 1;
  for (int64_t i = 0; i < width * height * 3; ++i) {
    state = state * 1664525 + 1013904223;
    image.pixels.push_back(static_cast<uint8_t>(state >> 24));
  }
  return image;
}

}  // namespace

// Their files are larger than what is read of one for its header.
TEST_CASE("SizesOfTurnedPicturesAreThoseThatAreSeen") {
  const Scratch scratch;
  const Image image = noise(200, 150);
  const std::string block = exif_block(6, true), chunk = png_chunk("eXIf", block);
  const std::string webp = with_exif(encode_webp(image, 100), {200, 150}, block);
  CHECK(webp.size() > 65536);
  const std::string path =
      lay_out(scratch,
              {{"a.jpg", with_orientation(encode_jpeg(image, 100), 6, true)},
               {"b.png", with_chunk(encode_png(image), chunk, /*behind=*/false)},
               {"c.png", with_chunk(encode_png(image), chunk, /*behind=*/true)},
               {"d.webp", webp}},
              any_kind());
  const PictureSizes sizes = look_at_sizes(at(path));
  REQUIRE(sizes.counts.size() == 1);
  CHECK(sizes.counts[0].size == Size{150, 200});
  CHECK(common_size(*open_source(at(path))) == Size{150, 200});
  DataOptions options = at(path);
  options.resolution = {150, 200};
  const auto data = open_dataset(options);
  for (int64_t i = 1; i < 4; ++i) CHECK(data->load(i).pixels == oriented(image, 6).pixels);
}

TEST_CASE("SizesAreLookedAtWithoutBadPicturesAndWithoutLabels") {
  const Scratch scratch;
  const std::string path =
      lay_out(scratch,
              {{"a.png", png(20, 10, 3)}, {"b.png", "broken"}, {"dataset.json", "broken"}},
              any_kind());
  const PictureSizes seen = look_at_sizes(at(path));
  CHECK(seen.pictures == 2);
  REQUIRE(seen.counts.size() == 1);
  CHECK(seen.counts[0].size == Size{20, 10});
  CHECK(look_at_sizes(at("synth:shapes")).counts.empty());
  CHECK(contains(input_error([] { look_at_sizes(at("nowhere")); }), "nowhere: no such file"));
}

}  // namespace gantrain
