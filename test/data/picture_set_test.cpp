// SPDX-License-Identifier: Apache-2.0
// Labels of the pictures of a folder or zip, and what becomes of bad ones.
#include <algorithm>
#include <chrono>
#include <thread>

#include "data/picture_files.h"
#include "data/pictures/dataset.h"
#include "support/catch.h"
#include "support/stopwatch.h"
#include "util/error.h"

namespace gantrain {

TEST_CASE("LabelsComeFromFoldersOrDatasetJson") {
  const Scratch scratch;
  const std::string kind = any_kind();
  Files files = {{"x/1.png", one_color(1)}, {"y/2.png", one_color(2)}, {"y/3.png", one_color(3)}};
  const auto folders = open_dataset(at(lay_out(scratch, files, kind)));
  CHECK(folders->classes() == 2);
  CHECK(folders->label(0) == 0);
  CHECK(folders->label(2) == 1);

  const Scratch listed;
  files.push_back(
      {"dataset.json", R"({"labels": [["y/3.png", 7], ["x/1.png", 5], ["y/2.png", 6]]})"});
  const auto json = open_dataset(at(lay_out(listed, files, kind)));
  CHECK(json->size() == 3);
  CHECK(json->classes() == 8);
  CHECK(json->label(0) == 5);
  CHECK(json->label(2) == 7);

  const Scratch unlabelled;
  files.back().second = R"({"labels": null})";
  CHECK(open_dataset(at(lay_out(unlabelled, files, kind)))->classes() == 0);
}

TEST_CASE("DatasetJsonMayLieInTheFolderThatHoldsEverything") {
  const Scratch scratch;
  const std::string kind = any_kind();
  const std::string list = R"({"labels": [["x/1.png", 2], ["y/2.png", 0], ["y/3.png", 1]]})";
  Files files = {{"top/x/1.png", one_color(1)},
                 {"top/y/2.png", one_color(2)},
                 {"top/y/3.png", one_color(3)},
                 {"top/y/dataset.json", "not of all pictures"},
                 {"top/dataset.json", list}};
  const auto data = open_dataset(at(lay_out(scratch, files, kind)));
  CHECK(data->classes() == 3);
  CHECK(data->label(0) == 2);
  CHECK(data->label(1) == 0);
  CHECK(contains(data->description(), "1 .json ignored"));
}

TEST_CASE("OneBadPictureInAThousandIsNamedQuickly") {
  const Scratch scratch;
  const std::string kind = GENERATE("folder", "stored");
  const std::string good = encode_jpeg(test_picture(64, 64, 3));
  Files files;
  for (int i = 0; i < 999; ++i) files.push_back({fmt::format("{:04}.jpg", i), good});
  files.push_back({"0500x.jpg", good.substr(0, good.size() - 100)});
  const std::string path = lay_out(scratch, files, kind);
  const Stopwatch watch;
  const std::string error = open_error(at(path, 64));
  CHECK(watch.seconds() < 60);
  CHECK(contains(error, "0500x.jpg: broken JPEG: "));
  CHECK(contains(error, "--set data.on_bad=skip"));
}

TEST_CASE("BadPicturesAreLeftOutWhenAskedAndLabelsStayRight") {
  const Scratch scratch;
  const std::string kind = any_kind();
  const std::string path = lay_out(scratch,
                                   {{"x/1.png", one_color(1)},
                                    {"x/2.png", "rubbish"},
                                    {"y/3.png", one_color(3).substr(0, 60)},
                                    {"y/4.png", one_color(4)},
                                    {"z/5.png", one_color(5)}},
                                   kind);
  const std::string error = open_error(at(path));
  CHECK(contains(error, "2.png: not a PNG"));
  CHECK(contains(error, "and 1 more"));
  DataOptions options = at(path);
  options.on_bad = OnBad::kSkip;
  const auto dataset = open_dataset(options);
  CHECK(values(*dataset) == std::vector<int>{1, 4, 5});
  CHECK(dataset->classes() == 3);
  CHECK(dataset->label(1) == 1);
  CHECK(dataset->label(2) == 2);
  CHECK(contains(dataset->description(), "2 bad left out"));
}

TEST_CASE("OnlyBadPicturesAreAnErrorEvenWhenSkipping") {
  const Scratch scratch;
  scratch.write("a.png", "rubbish");
  DataOptions options = at(scratch.path());
  options.on_bad = OnBad::kSkip;
  CHECK(contains(open_error(options), "1 picture, and none can be read"));
}

TEST_CASE("PictureThatTurnsBadIsNamedOrReplacedByTheNextOfItsClass") {
  const Scratch scratch;
  for (int i = 0; i < 6; ++i) {
    scratch.write(fmt::format("{}/{}.png", i % 2 == 0 ? "even" : "odd", i),
                  one_color(static_cast<uint8_t>(i)));
  }
  DataOptions options = at(scratch.path());
  options.cache_mb = 0;
  const auto strict = open_dataset(options);
  options.on_bad = OnBad::kSkip;
  const auto lenient = open_dataset(options);
  CHECK(values(*lenient) == std::vector<int>{0, 2, 4, 1, 3, 5});
  scratch.write("even/4.png", "rubbish");
  std::filesystem::remove(scratch.path("odd/5.png"));
  CHECK(contains(input_error([&] { strict->load(2); }), "even/4.png: not a PNG"));
  CHECK(contains(input_error([&] { strict->load(5); }), "odd/5.png"));
  CHECK(values(*lenient) == std::vector<int>{0, 2, 0, 1, 3, 1});
  for (const char* name : {"even/0.png", "even/2.png"}) scratch.write(name, "rubbish");
  CHECK(contains(input_error([&] { lenient->load(0); }), "none of the pictures"));
}

// As where a network's disk is mounted anew.
TEST_CASE("PicturesThatAreAwayForAMomentAreNotBroken") {
  const Scratch scratch;
  for (int i = 0; i < 6; ++i)
    scratch.write(fmt::format("set/{}.png", i), one_color(static_cast<uint8_t>(i)));
  DataOptions options = at(scratch.path("set"));
  options.cache_mb = 0;
  for (const OnBad on_bad : {OnBad::kSkip, OnBad::kFail}) {
    options.on_bad = on_bad;
    const auto dataset = open_dataset(options);
    std::filesystem::rename(scratch.path("set"), scratch.path("away"));
    std::thread mount([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      std::filesystem::rename(scratch.path("away"), scratch.path("set"));
    });
    const std::vector<int> seen = values(*dataset);
    mount.join();
    CHECK(seen == std::vector<int>{0, 1, 2, 3, 4, 5});
  }
}

TEST_CASE("ManyPicturesInARowThatCannotBeReadEndTheSearch") {
  const Scratch scratch;
  for (int i = 0; i < 150; ++i) scratch.write(fmt::format("{}.png", i), one_color(1));
  DataOptions options = at(scratch.path());
  options.cache_mb = 0;
  options.on_bad = OnBad::kSkip;
  const auto dataset = open_dataset(options);
  for (int i = 0; i < 150; ++i) scratch.write(fmt::format("{}.png", i), "rubbish");
  CHECK(contains(input_error([&] { dataset->load(0); }), "100 in a row cannot be read any more"));
}

TEST_CASE("DamagedZipEntryIsNamed") {
  const Scratch scratch;
  std::string zip = write_zip({{"a.png", one_color(1)}, {"b.png", one_color(2)}}, false);
  zip[60] = static_cast<char>(zip[60] ^ 1);  // inside a.png, stored
  scratch.write("set.zip", zip);
  CHECK(contains(open_error(at(scratch.path("set.zip"))), "set.zip:a.png: "));
}

TEST_CASE("ZipCutOffOrDamagedAnywhereNeverCrashes") {
  const Scratch scratch;
  const std::string zip = write_zip({{"a.png", one_color(1)}, {"b/c.png", one_color(2)}}, true);
  const std::string path = scratch.path("set.zip");
  const auto open = [&](std::string_view bytes) {
    write_file(path, bytes);
    const auto dataset = open_dataset(at(path));
    for (int64_t i = 0; i < dataset->size(); ++i) dataset->load(i);
  };
  CHECK(accepted_beginnings(zip, open) == 0);
  accepted_damage(zip, 300, open);
}

TEST_CASE("APictureInAZipThatUnpacksToFarTooMuchIsNamed") {
  const Scratch scratch;
  const std::string zeros(size_t{300} << 20, '\0');
  scratch.write("set.zip", write_zip({{"a.png", one_color(1)}, {"bomb.png", zeros}}, true));
  CHECK(contains(open_error(at(scratch.path("set.zip"))),
                 "bomb.png: 300 MB are too many for a picture"));
}

TEST_CASE("AFileFarTooLargeIsNamedWithoutReadingIt") {
  const Scratch scratch;
  scratch.write("a.png", one_color(1));
  scratch.write("huge.png", "");
  std::filesystem::resize_file(scratch.path("huge.png"), uintmax_t{1} << 40);  // takes no room
  CHECK(contains(open_error(at(scratch.path())), "huge.png: 1048576 MB are too many"));
}

TEST_CASE("VerifyNoneOpensBadPicturesAndLoadNamesThem") {
  const Scratch scratch;
  const std::string good = encode_jpeg(test_picture(32, 32, 3));
  scratch.write("a.jpg", good.substr(0, good.size() - 100));
  DataOptions options = at(scratch.path());
  options.verify = Verify::kNone;
  const auto dataset = open_dataset(options);
  CHECK(dataset->channels() == 3);
  CHECK(contains(input_error([&] { dataset->load(0); }), "a.jpg: broken JPEG"));
}

TEST_CASE("StopEndsTheScan") {
  const Scratch scratch;
  const std::string slow = encode_png(test_picture(1200, 1200, 3));
  for (int i = 0; i < 60; ++i) scratch.write(fmt::format("{}.png", i), slow);
  CHECK_FALSE(user_error(Exit::kStopped, [&] {
                open_dataset(at(scratch.path()), [] { return true; });
              }).empty());
}

}  // namespace gantrain
