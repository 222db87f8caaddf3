// SPDX-License-Identifier: Apache-2.0
#include "curation/packing.h"

#include <nlohmann/json.hpp>

#include "data/containers/source.h"
#include "data/picture_files.h"
#include "support/catch.h"
#include "util/error.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

PackRequest request(const std::string& path, const std::string& output) {
  PackRequest request;
  request.path = path;
  request.output = output;
  request.resolution = square_of(16);
  return request;
}

// Two classes, of which one has a broken picture; sizes that need resizing.
std::string mixed(const Scratch& scratch, int pictures = 12) {
  for (int i = 0; i < pictures; ++i) {
    const std::string folder = i % 3 == 0 ? "cat" : "dog";
    const Image image = test_picture(20 + i % 30, 40 - i % 30, i % 2 == 0 ? 3 : 4);
    scratch.write(fmt::format("in/{}/{:03}.{}", folder, i, i % 2 == 0 ? "jpg" : "png"),
                  i % 2 == 0 ? encode_jpeg(image) : encode_png(image));
  }
  scratch.write("in/dog/x.png", "no picture");
  return scratch.path("in");
}

// Asks for a stop when so many pictures are done.
WorkCallbacks stop_after(int64_t pictures, std::shared_ptr<bool> stopping) {
  return {.stop = [stopping] { return *stopping; },
          .progress = [=](int64_t done, int64_t) { *stopping = done >= pictures; }};
}

Exit code_of(const PackRequest& request) {
  try {
    pack_pictures(request, {});
  } catch (const UserError& error) {
    return error.code();
  }
  return Exit::kDone;
}

TEST_CASE("AClassOfAListWithoutAPictureIsPacked") {
  const Scratch scratch;
  for (int i = 0; i < 3; ++i) scratch.write(fmt::format("in/{}.png", i), one_color(1));
  scratch.write("in/labels.csv", "file,red,blue,green\n0.png,0,1,0\n1.png,1,0,0\n2.png,0,1,0\n");
  pack_pictures(request(scratch.path("in"), scratch.path("out")), {});
  const std::string json = read_file(scratch.path("out/dataset.json"));
  CHECK(contains(json, "img00000000.png\", [0,1,0]]"));
  CHECK(contains(json, R"("attributes": ["red","blue","green"])"));
  const auto packed = open_dataset(at(scratch.path("out")));
  CHECK(packed->classes() == 3);
  CHECK(packed->class_name(packed->label(0)) == "blue");
  // Classes that all have pictures stay numbers.
  scratch.write("in/labels.csv", "file,red,blue\n0.png,0,1\n1.png,1,0\n2.png,0,1\n");
  pack_pictures(request(scratch.path("in"), scratch.path("two")), {});
  const std::string two = read_file(scratch.path("two/dataset.json"));
  CHECK(contains(two, "img00000000.png\", 1]"));
  CHECK(contains(two, R"("classes": ["red","blue"])"));
}

TEST_CASE("PicturesWithoutALabelArePackedWhereTheyAreKept") {
  const Scratch scratch;
  for (const char* name : {"cat/1.png", "dog/2.png", "3.png"})
    scratch.write(std::string("in/") + name, one_color(1));
  PackRequest keep = request(scratch.path("in"), scratch.path("out"));
  keep.unlabelled = Unlabelled::kKeep;
  CHECK(pack_pictures(keep, {}).numbers == 2);
  CHECK(contains(read_file(scratch.path("out/dataset.json")), "img00000000.png\", null]"));
}

TEST_CASE("PackedDataHasTheReferencesLayout") {
  const Scratch scratch;
  const PackResult result = pack_pictures(request(mixed(scratch), scratch.path("out.zip")), {});
  CHECK(result.pictures == 12);
  CHECK(result.classes == 2);
  REQUIRE(result.bad.size() == 1);
  CHECK(contains(result.bad[0], "in/dog/x.png"));
  CHECK(contains(read_file(scratch.path("out.zip.bad.txt")), "in/dog/x.png"));
  const auto source = open_zip(scratch.path("out.zip"));
  REQUIRE(source->files().size() == 13);
  CHECK(source->files()[0] == "00000/img00000000.png");
  CHECK(source->files()[11] == "00000/img00000011.png");
  CHECK(source->files()[12] == "dataset.json");
  std::string json;
  source->read(12, json);
  const auto content = nlohmann::json::parse(json);
  REQUIRE(content["labels"].size() == 12);
  CHECK(content["labels"][0] == nlohmann::json({"00000/img00000000.png", 0}));
  CHECK(content["labels"][4] == nlohmann::json({"00000/img00000004.png", 1}));
  CHECK(content["classes"] == nlohmann::json({"cat", "dog"}));
}

TEST_CASE("PackedPicturesAreThoseThatTrainingSees") {
  const Scratch scratch;
  const std::string in = mixed(scratch);
  const std::string out = GENERATE("out.zip", "out");
  pack_pictures(request(in, scratch.path(out)), {});
  DataOptions options = at(in);
  options.on_bad = OnBad::kSkip;
  const auto before = open_dataset(options);
  const auto after = open_dataset(at(scratch.path(out)));
  REQUIRE(after->size() == before->size());
  CHECK(after->classes() == 2);
  for (int64_t i = 0; i < after->size(); ++i) {
    CHECK(after->label(i) == before->label(i));
    CHECK(after->load(i).pixels == before->load(i).pixels);
  }
}

TEST_CASE("AnInterruptedPackGoesOnToTheSameBytes") {
  const Scratch scratch;
  const std::string in = mixed(scratch, 60);
  pack_pictures(request(in, scratch.path("whole.zip")), {});
  const PackRequest cut = request(in, scratch.path("cut.zip"));
  for (const int64_t stop : {7, 20, 41}) {
    const auto stopping = std::make_shared<bool>(false);
    CHECK(pack_pictures(cut, stop_after(stop, stopping)).stopped);
    CHECK_FALSE(fs::exists(scratch.path("cut.zip")));
  }
  const PackResult result = pack_pictures(cut, {});
  CHECK(result.resumed >= 41);
  CHECK(result.pictures == 60);
  CHECK(result.bad.size() == 1);
  CHECK(read_file(scratch.path("cut.zip")) == read_file(scratch.path("whole.zip")));
  CHECK_FALSE(fs::exists(scratch.path("cut.zip.partial")));
  CHECK_FALSE(fs::exists(scratch.path("cut.zip.partial.journal")));
}

TEST_CASE("WhatAKilledPackLeftIsCheckedBeforeItIsUsed") {
  const Scratch scratch;
  const std::string in = mixed(scratch, 40);
  const std::string out = GENERATE("cut.zip", "cut");
  pack_pictures(request(in, scratch.path("whole.zip")), {});
  const PackRequest cut = request(in, scratch.path(out));
  const auto stopping = std::make_shared<bool>(false);
  pack_pictures(cut, stop_after(30, stopping));
  if (out == "cut") {
    scratch.write("cut.partial/00000/img00000005.png", "damaged");
  } else {  // cut off in the midst, with a journal that says more
    const std::string bytes = read_file(scratch.path("cut.zip.partial"));
    scratch.write("cut.zip.partial", bytes.substr(0, bytes.size() / 2));
  }
  const PackResult result = pack_pictures(cut, {});
  CHECK(result.resumed > 0);
  CHECK(result.resumed < 30);
  if (out == "cut.zip")
    CHECK(read_file(scratch.path("cut.zip")) == read_file(scratch.path("whole.zip")));
  CHECK(open_dataset(at(scratch.path(out)))->size() == 40);
}

// Each start unpacks it to another temporary file.
TEST_CASE("ACompressedArchiveGoesOnToo") {
  const Scratch scratch;
  Files files;
  for (int i = 0; i < 60; ++i)
    files.emplace_back(fmt::format("{:02}.png", i), encode_png(test_picture(20 + i, 40, 3)));
  const std::string in = lay_out(scratch, files, "tar.gz");
  pack_pictures(request(in, scratch.path("whole.zip")), {});
  const PackRequest cut = request(in, scratch.path("cut.zip"));
  const auto stopping = std::make_shared<bool>(false);
  CHECK(pack_pictures(cut, stop_after(7, stopping)).stopped);
  CHECK(pack_pictures(cut, {}).resumed >= 7);
  CHECK(read_file(scratch.path("cut.zip")) == read_file(scratch.path("whole.zip")));
}

TEST_CASE("AStopEndsTheCheckOfWhatIsThereAndKeepsIt") {
  const Scratch scratch;
  const bool zip = GENERATE(true, false);
  const fs::path path = scratch.path("out");
  const std::string content = "a picture";
  const ZipEntry entry = {.name = "00000/a.png", .size = 9, .checksum = checksum_of(content)};
  const auto open = [&] { return zip ? make_zip_store(path) : make_folder_store(path); };
  {
    const auto store = open();
    REQUIRE(store->go_on({}, {}) == size_t{0});
    store->add(entry, content);
  }
  CHECK_FALSE(open()->go_on({entry}, [] { return true; }));
  CHECK(open()->go_on({entry}, {}) == size_t{1});
}

TEST_CASE("OnBadFailAlsoSeesWhatWasLeftOutBefore") {
  const Scratch scratch;
  PackRequest pack = request(mixed(scratch, 60), scratch.path("out.zip"));
  scratch.write("in/cat/00.png", "no picture");  // the first one
  const auto stopping = std::make_shared<bool>(false);
  REQUIRE(pack_pictures(pack, stop_after(7, stopping)).stopped);
  pack.on_bad = OnBad::kFail;
  CHECK(contains(input_error([&] { pack_pictures(pack, {}); }), "in/cat/00.png"));
  pack.on_bad = OnBad::kSkip;
  CHECK(pack_pictures(pack, {}).resumed >= 7);
}

TEST_CASE("WhatIsNotOfAnInterruptedPackIsKept") {
  const Scratch scratch;
  const PackRequest folder = request(mixed(scratch), scratch.path("out"));
  scratch.write("out.partial/letter.txt", "dear");
  CHECK(code_of(folder) == Exit::kUsage);
  CHECK(read_file(scratch.path("out.partial/letter.txt")) == "dear");
  const PackRequest zip = request(scratch.path("in"), scratch.path("out.zip"));
  scratch.write("out.zip.partial", "dear");
  CHECK(code_of(zip) == Exit::kUsage);
  CHECK(read_file(scratch.path("out.zip.partial")) == "dear");
  scratch.write("out.zip.partial", "");
  CHECK(code_of(zip) == Exit::kDone);
}

// A command with --force was killed when it removed what it had replaced.
TEST_CASE("ALeftoverOfAReplacedFolderDoesNotHinderTheNextOne") {
  const Scratch scratch;
  PackRequest pack = request(mixed(scratch), scratch.path("out"));
  pack_pictures(pack, {});
  pack.force = true;
  scratch.write("out.replaced/letter.txt", "dear");
  CHECK(code_of(pack) == Exit::kUsage);
  CHECK(fs::exists(scratch.path("out.replaced/letter.txt")));
  scratch.write("out.replaced/dataset.json", "{}");
  CHECK(code_of(pack) == Exit::kDone);
  CHECK_FALSE(fs::exists(scratch.path("out.replaced")));
  CHECK(open_dataset(at(scratch.path("out")))->size() == 12);
}

// A command with --force was killed between its two renames.
TEST_CASE("AFolderThatWasBeingReplacedGetsItsNameBack") {
  const Scratch scratch;
  PackRequest pack = request(mixed(scratch, 60), scratch.path("out"));
  pack_pictures(pack, {});
  pack.force = true;
  pack.fit = Fit::kPad;
  const auto stopping = std::make_shared<bool>(false);
  REQUIRE(pack_pictures(pack, stop_after(7, stopping)).stopped);
  fs::rename(scratch.path("out"), scratch.path("out.replaced"));
  pack.force = false;
  CHECK(code_of(pack) == Exit::kUsage);
  CHECK(open_dataset(at(scratch.path("out")))->size() == 60);
  CHECK_FALSE(fs::exists(scratch.path("out.replaced")));
  pack.force = true;
  CHECK(pack_pictures(pack, {}).resumed >= 7);
}

TEST_CASE("AChangedSourceOrOptionBeginsAnew") {
  const Scratch scratch;
  const std::string in = mixed(scratch, 40);
  PackRequest cut = request(in, scratch.path("cut.zip"));
  const auto stopping = std::make_shared<bool>(false);
  pack_pictures(cut, stop_after(30, stopping));
  if (GENERATE(true, false)) {
    scratch.write("in/cat/000.jpg", encode_jpeg(test_picture(50, 50, 3)));
  } else {
    cut.fit = Fit::kPad;
  }
  const PackResult result = pack_pictures(cut, {});
  CHECK(result.resumed == 0);
  CHECK(result.pictures == 40);
  cut.output = scratch.path("whole.zip");
  pack_pictures(cut, {});
  CHECK(read_file(scratch.path("cut.zip")) == read_file(scratch.path("whole.zip")));
}

TEST_CASE("ExistingOutputIsReplacedByForceAlone") {
  const Scratch scratch;
  PackRequest pack = request(mixed(scratch), scratch.path(GENERATE("out.zip", "out", "out/")));
  pack_pictures(pack, {});
  CHECK(code_of(pack) == Exit::kUsage);
  pack.force = true;
  pack.max_images = 5;
  CHECK(pack_pictures(pack, {}).pictures == 5);
  CHECK(open_dataset(at(pack.output))->size() == 5);
}

TEST_CASE("OutputThatMustNotBeWrittenIsRefused") {
  const Scratch scratch;
  const std::string in = mixed(scratch);
  CHECK(code_of(request(in, in)) == Exit::kUsage);
  CHECK(code_of(request(in, in + "/packed")) == Exit::kUsage);
  CHECK(code_of(request(in, scratch.path())) == Exit::kUsage);
  CHECK(code_of(request(in, scratch.path("out.tar"))) == Exit::kUsage);
  CHECK(code_of(request(in, scratch.path("no/such/out.zip"))) == Exit::kDisk);
  CHECK(code_of(request(scratch.path("nothing"), scratch.path("out.zip"))) == Exit::kInput);
  PackRequest forced = request(in, scratch.path("mine"));
  scratch.write("mine/letter.txt", "dear");
  forced.force = true;
  CHECK(code_of(forced) == Exit::kUsage);
  CHECK(fs::exists(scratch.path("mine/letter.txt")));
}

TEST_CASE("OnBadFailNamesThePictureAndKeepsWhatIsPacked") {
  const Scratch scratch;
  PackRequest pack = request(mixed(scratch, 60), scratch.path("whole"));
  scratch.write("in/dog/020x.png", "no picture");  // behind 34 good ones
  const std::string ending = GENERATE(".zip", "");
  pack.output = scratch.path("whole" + ending);
  pack_pictures(pack, {});
  pack.output = scratch.path("out" + ending);
  const auto stopping = std::make_shared<bool>(false);
  REQUIRE(pack_pictures(pack, stop_after(7, stopping)).stopped);
  pack.on_bad = OnBad::kFail;
  for (int again = 0; again < 2; ++again) {
    const std::string error = input_error([&] { pack_pictures(pack, {}); });
    CHECK(contains(error, "in/dog/020x.png: not a PNG"));
    CHECK(contains(error, "--on-bad skip leaves such pictures out and goes on"));
    CHECK_FALSE(fs::exists(pack.output));
  }
  pack.on_bad = OnBad::kSkip;
  const PackResult result = pack_pictures(pack, {});
  CHECK(result.resumed == 34);
  CHECK(result.bad.size() == 2);
  const auto same = [&](const std::string& inside) {
    return read_file(scratch.path("out" + inside)) == read_file(scratch.path("whole" + inside));
  };
  CHECK(same(ending + ".bad.txt"));
  if (ending == ".zip") {
    CHECK(same(ending));
  } else {
    CHECK(same("/dataset.json"));
    CHECK(same("/00000/img00000033.png"));
    CHECK(same("/00000/img00000059.png"));
  }
}

TEST_CASE("OnBadFailLeavesNothingWhereNothingIsPacked") {
  const Scratch scratch;
  PackRequest pack = request(mixed(scratch), scratch.path("out.zip"));
  scratch.write("in/cat/00.png", "no picture");  // the first one
  pack.on_bad = OnBad::kFail;
  CHECK(contains(input_error([&] { pack_pictures(pack, {}); }), "mend or remove it, or leave"));
  for (const char* name : {"out.zip", "out.zip.partial", "out.zip.partial.journal"})
    CHECK_FALSE(fs::exists(scratch.path(name)));
}

TEST_CASE("PicturesArePackedAsTheirExifTurnsThem") {
  const Scratch scratch;
  const Image image = test_picture(24, 16, 3);
  const std::string block = exif_block(6, true);
  scratch.write("in/a.png", with_chunk(encode_png(image), png_chunk("eXIf", block), false));
  scratch.write("in/b.webp", with_exif(encode_webp(image, 100), {24, 16}, block));
  for (const char* name : {"turned/a.png", "turned/b.png"})
    scratch.write(name, encode_png(oriented(image, 6)));
  pack_pictures(request(scratch.path("in"), scratch.path("out.zip")), {});
  pack_pictures(request(scratch.path("turned"), scratch.path("expected.zip")), {});
  CHECK(read_file(scratch.path("out.zip")) == read_file(scratch.path("expected.zip")));
}

TEST_CASE("WithoutOneGoodPictureThereIsNoOutput") {
  const Scratch scratch;
  scratch.write("in/a.png", "no");
  scratch.write("in/b.png", "");
  const PackRequest pack = request(scratch.path("in"), scratch.path("out.zip"));
  CHECK(
      contains(input_error([&] { pack_pictures(pack, {}); }), "2 pictures, and none can be read"));
  CHECK_FALSE(fs::exists(scratch.path("out.zip")));
  CHECK_FALSE(fs::exists(scratch.path("out.zip.partial")));
}

TEST_CASE("GreyPicturesStayGreyUnlessOneIsNot") {
  const Scratch scratch;
  for (int i = 0; i < 9; ++i) scratch.write(fmt::format("in/{}.png", i), png(16, 16, 1));
  CHECK(pack_pictures(request(scratch.path("in"), scratch.path("a.zip")), {}).channels == 1);
  scratch.write("in/9.png", png(16, 16, 3));
  CHECK(pack_pictures(request(scratch.path("in"), scratch.path("b.zip")), {}).channels == 3);
  CHECK(open_dataset(at(scratch.path("b.zip")))->channels() == 3);
}

TEST_CASE("RectanglesAndLevelsArePackedAsAsked") {
  const Scratch scratch;
  scratch.write("in/a.png", png(64, 48, 3));
  PackRequest pack = request(scratch.path("in"), scratch.path("out.zip"));
  pack.resolution = {32, 16};
  pack.level = GENERATE(0, 9);
  pack_pictures(pack, {});
  std::string bytes;
  open_zip(pack.output)->read(0, bytes);
  const Image image = decode_image(bytes, "a");
  CHECK(image.width == 32);
  CHECK(image.height == 16);
  CHECK((bytes.size() > 32 * 16 * 3) == (pack.level == 0));
}

TEST_CASE("PackedDataPackedAgainIsTheSame") {
  const Scratch scratch;
  pack_pictures(request(mixed(scratch), scratch.path("a.zip")), {});
  pack_pictures(request(scratch.path("a.zip"), scratch.path("b.zip")), {});
  CHECK(read_file(scratch.path("a.zip")) == read_file(scratch.path("b.zip")));
}

// Of 16 x 16 pixels and 16 bits.
Image wide(int64_t number, int64_t channels) {
  Image image = in_depth(test_picture(16, 16, 3), 16);
  image.channels = channels;
  image.stack = is_stack(channels);
  image.pixels.resize(static_cast<size_t>(16 * 16 * channels * 2));
  for (size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<uint8_t>(37 * i + 11 * static_cast<size_t>(number));
  return image;
}

TEST_CASE("SixteenBitsArePackedWhereTheyAreAskedFor") {
  const Scratch scratch;
  for (int i = 0; i < 3; ++i) scratch.write(fmt::format("in/{}.png", i), encode_png(wide(i, 3)));
  PackRequest pack = request(scratch.path("in"), scratch.path("out.zip"));
  CHECK(pack_pictures(pack, {}).depth == 8);
  pack.output = scratch.path("wide.zip");
  pack.depth = GENERATE(Depth::k16, Depth::kAuto);
  CHECK(pack_pictures(pack, {}).depth == 16);
  DataOptions options = at(pack.output);
  options.depth = Depth::k16;
  const auto data = open_dataset(options);
  for (int i = 0; i < 3; ++i) CHECK(data->load(i).pixels == wide(i, 3).pixels);
}

TEST_CASE("StacksArePackedAsNpy") {
  const Scratch scratch;
  const int64_t channels = GENERATE(2, 4, 5);
  for (int i = 0; i < 4; ++i)
    scratch.write(fmt::format("in/{}/{}.npy", i % 2, i), encode_npy(wide(i, channels)));
  scratch.write("in/0/x.npy", "no picture");
  PackRequest pack = request(scratch.path("in"), scratch.path("out.zip"));
  pack.depth = Depth::k16;
  const PackResult result = pack_pictures(pack, {});
  CHECK(result.pictures == 4);
  CHECK(result.channels == channels);
  REQUIRE(result.bad.size() == 1);
  const auto source = open_zip(pack.output);
  CHECK(source->files()[0] == "00000/img00000000.npy");
  DataOptions options = at(pack.output);
  options.depth = Depth::k16;
  const auto data = open_dataset(options);
  REQUIRE(data->channels() == channels);
  CHECK(data->classes() == 2);
  CHECK(data->load(0).pixels == wide(0, channels).pixels);
  CHECK(data->load(3).pixels == wide(3, channels).pixels);
}

}  // namespace
}  // namespace gantrain
