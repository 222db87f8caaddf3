// SPDX-License-Identifier: Apache-2.0
#include "data/pictures/manifest.h"

#include <fmt/format.h>

#include "data/containers/source.h"
#include "data/picture_files.h"
#include "support/catch.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

// Two pictures in each of two classes.
void write_pictures(const Scratch& scratch, const std::string& folder) {
  for (int i = 0; i < 4; ++i)
    scratch.write(fmt::format("{}/{}/{}.png", folder, i < 2 ? "a" : "b", i),
                  one_color(static_cast<uint8_t>(10 * i)));
}

Manifest manifest_of(const Dataset& dataset, const Manifest* known = nullptr) {
  Manifest manifest = list_pictures(dataset, "path");
  mark_pictures(dataset, {.threads = 2, .known = known}, manifest);
  return manifest;
}

Manifest manifest_at(const std::string& path) { return manifest_of(*open_dataset(at(path))); }

std::string digest_at(const std::string& path) { return data_digest(*open_dataset(at(path))); }

// What a change of the folder "in" does to its manifest.
std::string change(const Scratch& scratch, const std::function<void()>& act) {
  write_pictures(scratch, "in");
  const Manifest before = manifest_at(scratch.path("in"));
  const std::string digest = digest_at(scratch.path("in"));
  act();
  const auto dataset = open_dataset(at(scratch.path("in")));
  const std::string said = changes(before, manifest_of(*dataset));
  CHECK(said == changes(before, manifest_of(*dataset, &before)));
  CHECK((data_digest(*dataset) == digest) == said.empty());
  return said;
}

TEST_CASE("EachChangeOfTheDataIsNamed") {
  const Scratch scratch;
  CHECK(change(scratch, [&] { fs::remove(scratch.path("in/a/1.png")); }) ==
        "1 picture removed (a/1.png)");
  CHECK(change(scratch, [&] { scratch.write("in/b/9.png", one_color(9)); }) ==
        "1 picture added (b/9.png)");
  fs::remove(scratch.path("in/b/9.png"));
  CHECK(change(scratch, [&] { scratch.write("in/a/0.png", one_color(200)); }) ==
        "1 picture altered (a/0.png)");
  const auto move_to_class = [&] {
    fs::rename(scratch.path("in/a/1.png"), scratch.path("in/b/1.png"));
  };
  CHECK(change(scratch, move_to_class) == "1 picture added (b/1.png), 1 removed (a/1.png)");
}

TEST_CASE("AnotherLabelIsAChange") {
  const Scratch scratch;
  scratch.write("in/dataset.json",
                R"({"labels": [["a/0.png", 0], ["a/1.png", 1], ["b/2.png", 0], ["b/3.png", 0]]})");
  CHECK(change(scratch, [&] {
          scratch.write(
              "in/dataset.json",
              R"({"labels": [["a/0.png", 0], ["a/1.png", 1], ["b/2.png", 0], ["b/3.png", 1]]})");
        }) == "1 picture with another label (b/3.png)");
}

TEST_CASE("TouchedAndMovedDataIsTheSame") {
  const Scratch scratch;
  CHECK(change(scratch, [&] {
          for (const char* name : {"in/a/0.png", "in/b/3.png"})
            fs::last_write_time(scratch.path(name), fs::file_time_type::clock::now());
        }).empty());
  const std::string digest = digest_at(scratch.path("in"));
  fs::rename(scratch.path("in"), scratch.path("elsewhere"));
  CHECK(digest_at(scratch.path("elsewhere")) == digest);
}

// The content of a file of 200 KiB decides, not its time.
TEST_CASE("OtherPicturesOfTheSameNameAndSizeAreSeen") {
  const Scratch scratch;
  const std::string one = encode_png(test_picture(300, 300, 3), 0);
  Image other = test_picture(300, 300, 3);
  other.pixels[150 * 300 * 3] ^= 1;
  const std::string two = encode_png(other, 0);
  REQUIRE(one.size() == two.size());
  REQUIRE(one.size() > (200 << 10));
  scratch.write("in/0.png", one);
  const Manifest before = manifest_at(scratch.path("in"));
  const auto time = fs::last_write_time(scratch.path("in/0.png"));
  scratch.write("in/0.png", two);
  fs::last_write_time(scratch.path("in/0.png"), time);
  const auto dataset = open_dataset(at(scratch.path("in")));
  CHECK(changes(before, manifest_of(*dataset, &before)) == "1 picture altered (0.png)");
}

TEST_CASE("EachByteOfAFileOfUpToFourMiBCounts") {
  const Scratch scratch;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{200} << 10, size_t{4} << 20}) {
    std::string content(size, 'a');
    const FileMark before = mark_of(content);
    scratch.write("file", content);
    CHECK(mark_of(whole_file(scratch.path("file"))) == before);
    if (size == 0) continue;
    content[size / 2] = 'b';
    CHECK(mark_of(content) != before);
    scratch.write("file", content);
    CHECK(mark_of(whole_file(scratch.path("file"))) == mark_of(content));
  }
}

TEST_CASE("OfALargerFileTheEndsCount") {
  const Scratch scratch;
  std::string content((size_t{4} << 20) + 1, 'a');
  const FileMark before = mark_of(content);
  content[content.size() / 2] = 'b';
  CHECK(mark_of(content) == before);
  content.back() = 'b';
  CHECK(mark_of(content) != before);
  scratch.write("file", content);
  CHECK(mark_of(whole_file(scratch.path("file"))) == mark_of(content));
}

// A temporary file is another one at each start, so its stamp says nothing.
TEST_CASE("UnpackedArchivesHaveNoStamp") {
  const Scratch scratch;
  const Files files = {{"a.png", one_color(1)}, {"b.png", one_color(2)}};
  const std::string path = lay_out(scratch, files, "tar.gz");
  const Manifest manifest = manifest_at(path);
  REQUIRE(manifest.rows.size() == 2);
  CHECK(manifest.rows[0].stamp.empty());
  CHECK(manifest.rows[0].mark == mark_of(one_color(1)));
  CHECK_FALSE(manifest_at(lay_out(scratch, files, "tar")).rows[0].stamp.empty());
}

TEST_CASE("PicturesThatAreLeftOutDoNotCount") {
  const Scratch scratch;
  write_pictures(scratch, "in");
  const std::string digest = digest_at(scratch.path("in"));
  scratch.write("in/b/bad.png", "no picture");
  DataOptions options = at(scratch.path("in"));
  options.on_bad = OnBad::kSkip;
  const auto left = open_dataset(options);
  CHECK(data_digest(*left) == digest);
  // One that breaks later counts without its content; without stand-ins it is an error.
  std::filesystem::remove(scratch.path("in/b/bad.png"));
  const auto strict = open_dataset(at(scratch.path("in")));
  std::filesystem::remove(scratch.path("in/b/3.png"));
  CHECK(data_digest(*left) != digest);
  CHECK(sampled_digest(*left).size() == 64);
  CHECK_THROWS_WITH(data_digest(*strict), Catch::Contains("3.png"));
}

TEST_CASE("AZipIsComparedByItsDirectoryAlone") {
  const Scratch scratch;
  const Files files = {{"a.png", one_color(1)}, {"b.png", one_color(2)}};
  scratch.write("set.zip", write_zip(files, true));
  const Manifest before = manifest_at(scratch.path("set.zip"));
  CHECK(starts_with(before.rows[0].mark.hash, "crc32:"));
  scratch.write("set.zip", write_zip(files, false));
  CHECK(changes(before, manifest_at(scratch.path("set.zip"))).empty());
  scratch.write("set.zip", write_zip({{"a.png", one_color(1)}, {"b.png", one_color(3)}}, false));
  CHECK(changes(before, manifest_at(scratch.path("set.zip"))) == "1 picture altered (b.png)");
}

// A zip has other hashes than files, so only the size can be compared.
TEST_CASE("FilesThatWerePutIntoAZipAreTheSame") {
  const Scratch scratch;
  const Files files = {{"a.png", png(16, 16, 3)}, {"b.png", png(20, 16, 3)}};
  const Manifest before = manifest_at(lay_out(scratch, files, "folder"));
  const Manifest zip = manifest_at(lay_out(scratch, files, "stored"));
  CHECK(changes(before, zip).empty());
  CHECK(changes(zip, before).empty());
  const Files other = {files[0], {"b.png", png(40, 30, 3)}};
  CHECK(changes(before, manifest_at(lay_out(scratch, other, "stored"))) ==
        "1 picture altered (b.png)");
}

TEST_CASE("APictureThatCannotBeReadStaysUnmarkedWhereThatIsAllowed") {
  const Scratch scratch;
  write_pictures(scratch, "in");
  const auto dataset = open_dataset(at(scratch.path("in")));
  const Manifest known = manifest_of(*dataset);
  fs::remove(scratch.path("in/a/1.png"));
  Manifest now = list_pictures(*dataset, "path");
  CHECK(
      contains(input_error([&] { mark_pictures(*dataset, {.threads = 2, .known = &known}, now); }),
               "a/1.png"));
  now = list_pictures(*dataset, "path");
  CHECK(mark_pictures(*dataset, {.threads = 2, .known = &known, .lenient = true}, now) == 1);
  CHECK(now.rows[1].mark.hash.empty());
  CHECK(now.rows[1].stamp.empty());
  CHECK(now.rows[3].mark == known.rows[3].mark);
  CHECK(changes(known, now).empty());
}

TEST_CASE("ManyChangesAreCountedAndAFewNamed") {
  Manifest before, now;
  for (int i = 0; i < 9; ++i) before.rows.push_back({.name = fmt::format("{}.png", i)});
  now.rows = {before.rows[0]};
  CHECK(changes(before, now) == "8 pictures removed (1.png, 2.png, 3.png, ...)");
}

TEST_CASE("ComputedPicturesAreNotFiles") {
  const auto shapes = open_dataset({});
  CHECK(list_pictures(*shapes, "synth:shapes").rows.empty());
  DataOptions fewer;
  fewer.synth_size = 10;
  CHECK(data_digest(*shapes) == data_digest(*open_dataset({})));
  CHECK(data_digest(*shapes) != data_digest(*open_dataset(fewer)));
  const Manifest files = {.path = "photos", .rows = {{.name = "a"}}};
  CHECK(changes({.path = "synth:shapes", .rows = {}}, files) ==
        "synth:shapes (computed pictures) -> photos (1 pictures)");
  CHECK(
      changes({.path = "synth:shapes", .rows = {}}, {.path = "synth:shapes", .rows = {}}).empty());
  CHECK(changes({.path = "synth:shapes", .rows = {}},
                {.path = "synth:shapes-attributes", .rows = {}}) ==
        "synth:shapes (computed pictures) -> synth:shapes-attributes (computed pictures)");
}

TEST_CASE("AManifestIsReadBack") {
  const Scratch scratch;
  write_pictures(scratch, "in");
  scratch.write("in/a/\xff.png", one_color(7));  // not UTF-8
  const Manifest written = manifest_at(scratch.path("in"));
  CHECK_FALSE(read_manifest(scratch.path()));
  write_manifest(scratch.path(), written);
  const auto read = read_manifest(scratch.path());
  REQUIRE(read);
  CHECK(changes(written, *read).empty());
  CHECK(digest_of(*read) == digest_of(written));
  CHECK(read->path == "path");
  CHECK(read->rows[0].stamp == written.rows[0].stamp);
}

TEST_CASE("ABrokenManifestIsRefused") {
  const Scratch scratch;
  for (const char* text : {"text\n",
                           "{\"format\": \"other\"}\n",
                           "[]\n",
                           "{\"format\": \"gantrain.data-manifest.1\"}\n[\"a\", 1]\n",
                           "{\"format\": \"gantrain.data-manifest.1\"}\n[\"a\", 1"}) {
    CAPTURE(text);
    scratch.write("data-manifest.jsonl", text);
    CHECK(contains(input_error([&] { read_manifest(scratch.path()); }), "data-manifest.jsonl"));
  }
}

// A file that has not changed since is not read again, which a wrong mark shows.
TEST_CASE("UntouchedFilesAreNotReadAgain") {
  const Scratch scratch;
  write_pictures(scratch, "in");
  const auto dataset = open_dataset(at(scratch.path("in")));
  Manifest known = manifest_of(*dataset);
  known.rows[0].mark.hash = "xxh3:kept";
  CHECK(manifest_of(*dataset, &known).rows[0].mark.hash == "xxh3:kept");
  fs::last_write_time(scratch.path("in/a/0.png"), fs::file_time_type::clock::now());
  CHECK(manifest_of(*dataset, &known).rows[0].mark.hash != "xxh3:kept");
}

TEST_CASE("RowsThatAreLeftOutMoveNoMark") {
  const Scratch scratch;
  write_pictures(scratch, "in");
  const auto dataset = open_dataset(at(scratch.path("in")));
  Manifest some = list_pictures(*dataset, "path");
  some.rows.erase(some.rows.begin());
  mark_pictures(*dataset, {.threads = 2}, some);
  CHECK(some.rows[1].mark == manifest_of(*dataset).rows[2].mark);
}

TEST_CASE("OnlyWhatWasMarkedIsCompared") {
  const Scratch scratch;
  write_pictures(scratch, "in");
  const auto dataset = open_dataset(at(scratch.path("in")));
  Manifest known = manifest_of(*dataset);
  known.rows[1].mark = {};
  const Manifest now = manifest_of(*dataset, &known);
  CHECK(now.rows[1].mark.hash.empty());
  CHECK_FALSE(now.rows[2].mark.hash.empty());
  CHECK(changes(known, now).empty());
}

}  // namespace
}  // namespace gantrain
