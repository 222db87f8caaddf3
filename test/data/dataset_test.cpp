// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <thread>

#include "data/scratch.h"
#include "data/zip_writer.h"
#include "image/pictures.h"
#include "stopwatch.h"
#include "util/error.h"

namespace gantrain {

namespace {

using Files = std::vector<std::pair<std::string, std::string>>;

DataOptions at(const std::string& path, int64_t resolution = 16) {
  DataOptions options;
  options.path = path;
  options.resolution = resolution;
  return options;
}

std::string png(int64_t width, int64_t height, int64_t channels) {
  return encode_png(test_picture(width, height, channels));
}

std::string one_color(uint8_t value) {
  return encode_png({16, 16, 1, std::vector<uint8_t>(256, value)});
}

// The grey value of each picture of a set of one_color() pictures.
std::vector<int> values(const Dataset& dataset) {
  std::vector<int> all;
  for (int64_t i = 0; i < dataset.size(); ++i) all.push_back(dataset.load(i).pixels[0]);
  return all;
}

// Writes the files as a folder, a stored or a deflated zip; the path to open.
std::string lay_out(const Scratch& scratch, const Files& files, const std::string& kind) {
  if (kind == "folder") {
    for (const auto& [name, content] : files) scratch.write("set/" + name, content);
    return scratch.path("set");
  }
  scratch.write("set.zip", write_zip(files, kind == "deflated"));
  return scratch.path("set.zip");
}

std::string any_kind() { return GENERATE("folder", "stored", "deflated"); }

std::string open_error(const DataOptions& options) {
  return input_error([&] { open_dataset(options); });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("PicturesComeInOrderOfTheirPaths") {
  const Scratch scratch;
  const std::string path = lay_out(scratch,
                                   {{"b.png", one_color(2)},
                                    {"a/z.png", one_color(1)},
                                    {"c.webp", png(16, 16, 3)},
                                    {".hidden.png", one_color(9)},
                                    {".trash/x.png", one_color(9)},
                                    {"notes.txt", "hello"},
                                    {"__MACOSX/b.png", "junk"},
                                    {"a/Upper.PNG", one_color(0)}},
                                   any_kind());
  DataOptions options = at(path);
  options.channels = 1;
  const auto dataset = open_dataset(options);
  const auto all = values(*dataset);
  CHECK(std::vector<int>(all.begin(), all.begin() + 3) == std::vector<int>{0, 1, 2});
  CHECK(dataset->size() == 4);
  CHECK(dataset->classes() == 0);
  CHECK(contains(dataset->description(), "1 other files ignored"));
}

TEST_CASE("PicturesOfAnyKindAndSizeBecomeSquare") {
  const Scratch scratch;
  const std::string path = lay_out(scratch,
                                   {{"a.png", png(50, 20, 1)},
                                    {"b.jpg", encode_jpeg(test_picture(7, 90, 3))},
                                    {"c.webp", encode_webp(test_picture(33, 33, 4))},
                                    {"d.png", png(16, 16, 2)}},
                                   any_kind());
  DataOptions options = at(path);
  options.fit = GENERATE(Fit::kCrop, Fit::kPad, Fit::kStretch);
  const auto dataset = open_dataset(options);
  CHECK(dataset->channels() == 3);
  for (int64_t i = 0; i < 4; ++i) {
    const Image image = dataset->load(i);
    CHECK(image.width == 16);
    CHECK(image.height == 16);
    CHECK(image.channels == 3);
    CHECK(image.pixels.size() == 16 * 16 * 3);
  }
}

TEST_CASE("PictureOfTheRightSizeKeepsItsPixels") {
  const Scratch scratch;
  const Image image = test_picture(16, 16, 3);
  scratch.write("a.png", encode_png(image));
  DataOptions options = at(scratch.path());
  options.fit = GENERATE(Fit::kCrop, Fit::kPad, Fit::kStretch);
  CHECK(open_dataset(options)->load(0).pixels == image.pixels);
}

TEST_CASE("CropTakesTheMiddleAndPadKeepsAll") {
  const Scratch scratch;
  Image wide{.width = 48, .height = 16, .channels = 1};
  for (int i = 0; i < 16 * 48; ++i) {
    const int column = i % 48;
    wide.pixels.push_back(column < 16 ? 0 : column < 32 ? 100 : 200);
  }
  scratch.write("a.png", encode_png(wide));
  DataOptions options = at(scratch.path());
  CHECK(open_dataset(options)->load(0).pixels == std::vector<uint8_t>(256, 100));
  options.fit = Fit::kPad;
  options.filter = Filter::kBox;
  const Image padded = open_dataset(options)->load(0);
  CHECK(padded.pixels[0] == 255);
  CHECK(padded.pixels[7 * 16 + 1] == 0);
  CHECK(padded.pixels[7 * 16 + 8] == 100);
  CHECK(padded.pixels[7 * 16 + 14] == 200);
}

TEST_CASE("GreyPicturesStayGreyUnlessOneHasColor") {
  const Scratch scratch;
  const std::string kind = any_kind();
  Files files = {{"a.png", png(16, 16, 1)}, {"b.png", png(16, 16, 2)}};
  CHECK(open_dataset(at(lay_out(scratch, files, kind)))->channels() == 1);
  const Scratch mixed;
  files.push_back({"c.png", png(16, 16, 3)});
  CHECK(open_dataset(at(lay_out(mixed, files, kind)))->channels() == 3);
}

TEST_CASE("TransparencyLiesOverWhiteUnlessFourChannelsAreWanted") {
  const Scratch scratch;
  Image clear{.width = 16, .height = 16, .channels = 4};
  clear.pixels.assign(16 * 16 * 4, 0);
  scratch.write("a.png", encode_png(clear));
  DataOptions options = at(scratch.path());
  CHECK(open_dataset(options)->load(0).pixels == std::vector<uint8_t>(16 * 16 * 3, 255));
  options.channels = 4;
  CHECK(open_dataset(options)->load(0).pixels == clear.pixels);
}

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
  CHECK(contains(data->description(), "1 other files ignored"));
}

TEST_CASE("WhatIsNoDataIsNamedWithTheWayOut") {
  const Scratch scratch;
  scratch.write("notes.txt", "just text");
  scratch.write("only.png", one_color(1));
  scratch.write("texts/readme.md", "text");
  std::filesystem::create_directory(scratch.path("empty"));
  const std::string zip = write_zip({{"a.png", one_color(1)}, {"b.png", one_color(2)}}, true);
  scratch.write("cut.zip", std::string_view(zip).substr(0, zip.size() - 30));
  scratch.write("cut_without_name", std::string_view(zip).substr(0, zip.size() / 2));
  scratch.write("empty.zip", "");
  scratch.write("texts.zip", write_zip({{"a.txt", "text"}}, false));

  const auto error_at = [&](const std::string& name) {
    const std::string error = open_error(at(scratch.path(name)));
    CHECK(contains(error, scratch.path(name) + ": "));
    CHECK_FALSE(contains(error, "\n"));
    return error;
  };
  const Stopwatch watch;
  CHECK(contains(error_at("missing"), "no such file or folder"));
  CHECK(contains(error_at("notes.txt"), "neither a folder nor a zip archive"));
  CHECK(contains(error_at("only.png"), "wants the folder"));
  CHECK(contains(error_at("empty"), "no pictures in it"));
  CHECK(contains(error_at("texts"), "1 other files"));
  CHECK(contains(error_at("cut.zip"), "broken zip archive"));
  CHECK(contains(error_at("cut_without_name"), "cut off"));
  CHECK(contains(error_at("empty.zip"), "zip archive"));
  CHECK(contains(error_at("texts.zip"), "no pictures in it"));
  CHECK(contains(open_error(at("synth:cats")), "synth:shapes"));
  CHECK(watch.seconds() < 2);
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
  CHECK(watch.seconds() < 2);
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
  CHECK(contains(open_error(options), "none of the 1 pictures can be read"));
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

TEST_CASE("LinksAreFollowedAndLoopsEnd") {
  const Scratch scratch;
  scratch.write("real/a.png", one_color(1));
  scratch.write("set/b.png", one_color(2));
  std::filesystem::create_directory_symlink(scratch.path("real"), scratch.path("set/linked"));
  std::filesystem::create_directory_symlink(scratch.path("set"), scratch.path("set/loop"));
  std::filesystem::create_symlink(scratch.path("nowhere"), scratch.path("set/dangling.png"));
  CHECK(values(*open_dataset(at(scratch.path("set")))) == std::vector<int>{2, 1});
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

TEST_CASE("CacheChangesNothing") {
  const Scratch scratch;
  for (int i = 0; i < 20; ++i) {
    scratch.write(fmt::format("{:02}.png", i), one_color(static_cast<uint8_t>(i)));
  }
  DataOptions options = at(scratch.path());
  const auto kept = open_dataset(options);
  options.cache_mb = 0;
  const auto plain = open_dataset(options);
  for (int round = 0; round < 2; ++round) CHECK(values(*kept) == values(*plain));
  for (int i = 0; i < 20; ++i) scratch.write(fmt::format("{:02}.png", i), "gone");
  CHECK(values(*kept).size() == 20);
}

TEST_CASE("StopEndsTheScan") {
  const Scratch scratch;
  const std::string slow = encode_png(test_picture(1200, 1200, 3));
  for (int i = 0; i < 60; ++i) scratch.write(fmt::format("{}.png", i), slow);
  const Stopwatch watch;
  try {
    open_dataset(at(scratch.path()), [] { return true; });
    FAIL("not stopped");
  } catch (const UserError& error) {
    CHECK(error.code() == Exit::kStopped);
  }
  CHECK(watch.seconds() < 1);
}

TEST_CASE("LoadServesManyThreadsAndForkedProcesses") {
  const Scratch scratch;
  Files files;
  for (int i = 0; i < 50; ++i)
    files.push_back({fmt::format("{:02}.png", i), one_color(static_cast<uint8_t>(i))});
  DataOptions options = at(lay_out(scratch, files, GENERATE("folder", "deflated")));
  options.cache_mb = GENERATE(0, 1);
  const auto dataset = open_dataset(options);
  const auto load_all = [&] {
    std::vector<int> wrong(4, 0);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int64_t i = 0; i < 100; ++i) {
          const int64_t index = (i * static_cast<int64_t>(2 * t + 1)) % 50;
          wrong[t] += dataset->load(index).pixels[0] != index;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return std::count(wrong.begin(), wrong.end(), 0) == 4;
  };
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(load_all() ? 0 : 1);
    children.push_back(child);
  }
  CHECK(load_all());
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
}

}  // namespace gantrain
