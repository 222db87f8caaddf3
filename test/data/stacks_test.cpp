// SPDX-License-Identifier: Apache-2.0
// Data sets of 16 bits and of more channels than a PNG has.
#include <ATen/ATen.h>

#include <cstring>

#include "core/torch.h"
#include "data/containers/formats.h"
#include "data/containers/source.h"
#include "data/load/loader.h"
#include "data/picture_files.h"
#include "data/pictures/manifest.h"

namespace gantrain {

namespace {

// Values that differ by picture, place and channel.
Image wide_picture(int64_t number, int64_t channels, int64_t side = 16) {
  Image image{side, side, channels, {}, 16, is_stack(channels)};
  std::vector<uint16_t> words;
  for (int64_t i = 0; i < side * side * channels; ++i)
    words.push_back(static_cast<uint16_t>(9173 * number + 257 * i + 31));
  image.pixels.resize(2 * words.size());
  std::memcpy(image.pixels.data(), words.data(), image.pixels.size());
  return image;
}

std::string wide_png(int64_t number, int64_t channels) {
  Image image = wide_picture(number, channels);
  image.stack = false;
  return encode_png(image);
}

DataOptions wide(const std::string& path) {
  DataOptions options = gantrain::at(path);
  options.depth = Depth::k16;
  return options;
}

// A grey PNG of each channel of three pictures of five channels.
Files planes(const std::string& name, const std::string& ending = ".png") {
  Files files;
  for (int64_t i = 0; i < 3; ++i) {
    const Image picture = wide_picture(i, 5);
    for (int64_t c = 0; c < 5; ++c) {
      files.push_back({fmt::format(fmt::runtime(name), fmt::arg("i", i), fmt::arg("c", c)) + ending,
                       encode_png(only_channels(view_of(picture), {c}))});
    }
  }
  return files;
}

}  // namespace

TEST_CASE("SixteenBitsAreKeptWhereTheyAreAskedFor") {
  const Scratch scratch;
  const std::string path =
      lay_out(scratch, {{"a.png", wide_png(0, 3)}, {"b.png", wide_png(1, 3)}}, any_kind());
  const auto bytes = open_dataset(at(path));
  CHECK(bytes->depth() == 8);
  CHECK(bytes->load(1).pixels == in_depth(wide_picture(1, 3), 8).pixels);
  CHECK(contains(bytes->description(), ", 16 bits of 2 rounded to 8 (data.depth=16 keeps them)"));
  const auto words = open_dataset(wide(path));
  CHECK(words->depth() == 16);
  CHECK(words->load(1).pixels == wide_picture(1, 3).pixels);
  CHECK(words->load(1).pixels == wide_picture(1, 3).pixels);  // now of the cache
  CHECK(contains(words->description(), "16x16x3, 16 bits"));
  DataOptions options = at(path);
  options.depth = Depth::kAuto;
  CHECK(open_dataset(options)->depth() == 16);
}

TEST_CASE("EightBitsAreWidenedAndSaidToBe") {
  const Scratch scratch;
  const std::string path =
      lay_out(scratch, {{"a.png", png(16, 16, 3)}, {"b.png", wide_png(1, 3)}}, "folder");
  const auto data = open_dataset(wide(path));
  CHECK(data->load(0).pixels == in_depth(test_picture(16, 16, 3), 16).pixels);
  CHECK(contains(data->description(), "16 bits, 1 of 8 bits widened (v to 257 v)"));
  const Scratch plain;
  DataOptions options = at(lay_out(plain, {{"a.png", png(16, 16, 3)}}, "folder"));
  options.depth = Depth::kAuto;
  CHECK(open_dataset(options)->depth() == 8);
}

TEST_CASE("FilesNamedByTheirChannelMakeOnePicture") {
  const Scratch scratch;
  const bool folders = GENERATE(false, true);
  Files files = planes(folders ? "c{c}/x/{i}" : "x/{i}.c{c}");
  files.push_back(
      {"dataset.json", R"({"labels": [["x/0.png", 2], ["x/1.png", 0], ["x/2.png", 1]]})"});
  DataOptions options = wide(lay_out(scratch, files, any_kind()));
  if (folders) options.join = Join::kFolders;
  const auto data = open_dataset(options);
  REQUIRE(data->size() == 3);
  CHECK(data->channels() == 5);
  CHECK(data->stack());
  CHECK(data->label(0) == 2);
  for (int64_t i = 0; i < 3; ++i) CHECK(data->load(i).pixels == wide_picture(i, 5).pixels);
  CHECK(contains(data->description(), ", 15 files, 3 pictures"));
  const Manifest manifest = list_pictures(*data, "");
  CHECK(manifest.rows[1].name == "x/1.png");
  CHECK(data_digest(*data) == data_digest(*open_dataset(options)));
  options.join = Join::kOff;
  options.labels = "none";
  CHECK(open_dataset(options)->size() == 15);
}

TEST_CASE("AMissingChannelIsNamed") {
  const Scratch scratch;
  Files files = planes("{i}.c{c}");
  files.erase(files.begin() + 7);  // 1.c2.png
  const std::string path = lay_out(scratch, files, "folder");
  CHECK(open_error(at(path)) ==
        path +
            "/1.c3.png: channel 2 of 1.png is missing before it (data.join=off: each file is a "
            "picture)");
  Files fewer = planes("{i}.c{c}");
  fewer.erase(fewer.begin() + 9);  // 1.c4.png
  const Scratch other;
  const std::string there = lay_out(other, fewer, "folder");
  CHECK(contains(open_error(at(there)),
                 there + "/1.c0.png: 4 channels, the first picture has 5; all need as many"));
  const Scratch sizes;
  Files odd = planes("{i}.c{c}");
  odd[6].second = png(16, 17, 1);
  CHECK(contains(open_error(at(lay_out(sizes, odd, "folder"))), "1.c1.png: 16x17 pixels, "));
  // One file that is named otherwise: each is a picture, as before.
  const Scratch mixed;
  Files more = planes("{i}.c{c}");
  more.push_back({"other.png", png(16, 16, 1)});
  DataOptions options = at(lay_out(mixed, more, "folder"));
  CHECK(open_dataset(options)->size() == 16);
  options.join = Join::kFolders;
  CHECK(contains(open_error(options), "in no folder c0, c1, ..."));
}

TEST_CASE("NpyStacksAndTiffArePicturesWhereThereAreNoOthers") {
  const Scratch scratch;
  const std::string kind = any_kind();
  Files files;
  for (int64_t i = 0; i < 3; ++i)
    files.push_back({fmt::format("{}.npy", i), encode_npy(wide_picture(i, 7))});
  const auto data = open_dataset(wide(lay_out(scratch, files, kind)));
  REQUIRE(data->size() == 3);
  CHECK(data->channels() == 7);
  CHECK(data->load(2).pixels == wide_picture(2, 7).pixels);
  const Scratch mixed;
  files.push_back({"a.png", png(16, 16, 3)});
  const auto pictures = open_dataset(at(lay_out(mixed, files, kind)));
  CHECK(pictures->size() == 1);
  CHECK(contains(pictures->description(), "3 .npy ignored"));
}

TEST_CASE("AnArrayOfPicturesIsADataSet") {
  const Scratch scratch;
  const std::vector<Image> all = {wide_picture(0, 6), wide_picture(1, 6), wide_picture(2, 6)};
  scratch.write("all.npy", encode_npy(all));
  const auto data = open_dataset(wide(scratch.path("all.npy")));
  REQUIRE(data->size() == 3);
  CHECK(data->channels() == 6);
  for (size_t i = 0; i < 3; ++i) CHECK(data->load(static_cast<int64_t>(i)).pixels == all[i].pixels);
  CHECK(contains(data->description(), "all.npy, .npy, 3 pictures"));
  scratch.write("one.npy", encode_npy(all[0]));
  CHECK(contains(open_error(at(scratch.path("one.npy"))), "[N, H, W, C] or [N, C, H, W]"));
  scratch.write("cut.npy", encode_npy(all).substr(0, 5000));
  CHECK(contains(open_error(at(scratch.path("cut.npy"))), "cut.npy: broken .npy: "));
}

TEST_CASE("OtherChannelsThanAskedForAreNamed") {
  const Scratch scratch;
  Files files = {{"a.npy", encode_npy(wide_picture(0, 5))},
                 {"b.npy", encode_npy(wide_picture(0, 6))}};
  const std::string path = lay_out(scratch, files, "folder");
  CHECK(contains(open_error(at(path)), path + "/b.npy: 6 channels, the first picture has 5"));
  DataOptions options = at(path);
  options.channels = 4;
  CHECK(contains(open_error(options), path + "/a.npy: 5 channels; 4 are needed of all pictures"));
  const Scratch pngs;
  DataOptions five = at(lay_out(pngs, {{"a.png", png(16, 16, 3)}}, "folder"));
  five.channels = 5;
  CHECK(contains(open_error(five), "a.png: 3 channels; 5 are needed of all pictures"));
  const Scratch rgb;
  files[1].second = encode_npy(wide_picture(0, 3));
  CHECK(contains(open_error(at(lay_out(rgb, files, "folder"))),
                 "b.npy: 3 channels, the first picture has 5"));
  const Scratch nan;
  const std::vector<float> values(16 * 16, std::nanf(""));
  const std::string numbers(reinterpret_cast<const char*>(values.data()), 4 * values.size());
  const std::string broken =
      lay_out(nan, {{"n.npy", npy_header("<f4", {16, 16}) + numbers}}, "folder");
  CHECK(contains(open_error(at(broken)), broken + "/n.npy: value 0 is NaN"));
}

TEST_CASE("StacksOfTwoAndFourChannelsHaveNoAlpha") {
  const Scratch scratch;
  const int64_t channels = GENERATE(2, 4);
  DataOptions options =
      wide(lay_out(scratch, {{"a.npy", encode_npy(wide_picture(3, channels, 32))}}, "folder"));
  const auto data = open_dataset(options);
  CHECK(data->channels() == channels);
  CHECK(data->stack());
  CHECK(data->load(0).pixels == prepare(wide_picture(3, channels, 32), channels, options).pixels);
  CHECK_FALSE(contains(data->description(), "alpha"));
}

TEST_CASE("BatchesOfSixteenBitsAreWords") {
  const Scratch scratch;
  Files files;
  for (int64_t i = 0; i < 4; ++i)
    files.push_back({fmt::format("{}.npy", i), encode_npy(wide_picture(i, 5))});
  DataOptions options = wide(lay_out(scratch, files, "folder"));
  options.workers = GENERATE(0, 2);
  const auto data = open_dataset(options);
  Loader loader(data, options, 7, {}, 0, 4);
  const Sampler sampler(4, 7, false);
  const Batch batch = loader.next();
  REQUIRE(batch.real.scalar_type() == at::kUInt16);
  REQUIRE(batch.real.sizes() == at::IntArrayRef({4, 5, 16, 16}));
  for (int64_t i = 0; i < 4; ++i) {
    const Image picture = data->load(sampler.index(i));
    std::vector<uint16_t> pixels(picture.pixels.size() / 2);
    std::memcpy(pixels.data(), picture.pixels.data(), picture.pixels.size());
    const at::Tensor own = batch.real[i].permute({1, 2, 0}).contiguous();
    CHECK(std::memcmp(own.const_data_ptr(), pixels.data(), picture.pixels.size()) == 0);
  }
  CHECK(load_planes(*data, {{0}}).scalar_type() == at::kByte);
  CHECK(load_planes(*data, {{0}}, 16).scalar_type() == at::kUInt16);
}

TEST_CASE("BuiltInPicturesHaveAnyChannelsAndBits") {
  DataOptions options;
  options.resolution = {16, 16};
  options.channels = 5;
  options.depth = Depth::k16;
  const Image image = open_dataset(options)->load(3);
  CHECK(image.channels == 5);
  CHECK(image.depth == 16);
  options.channels = 3;
  options.depth = Depth::k8;
  const Image plain = open_dataset(options)->load(3);
  CHECK(only_channels(view_of(in_depth(image, 8)), {0, 1, 2}).pixels == plain.pixels);
  CHECK(only_channels(view_of(in_depth(image, 8)), {3, 4, 2}).pixels == plain.pixels);
}

}  // namespace gantrain
