// SPDX-License-Identifier: Apache-2.0
// Manifests of more pictures than a list is made of. Here a list ends at two pictures.
#include <fmt/format.h>

#include "data/containers/source.h"
#include "data/labels/labels.h"
#include "data/picture_files.h"
#include "data/pictures/manifest.h"
#include "support/catch.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kListEnds = 2;
const Files kFiveFiles = {{"a/0.png", one_color(0)},
                          {"a/1.png", one_color(10)},
                          {"b/2.png", one_color(20)},
                          {"b/3.png", one_color(30)},
                          {"b/4.png", one_color(40)}};

Manifest hashes_of_set(const Dataset& dataset, const Manifest* known = nullptr) {
  Manifest manifest = list_pictures(dataset, "path", kListEnds);
  mark_pictures(dataset, {.threads = 2, .known = known}, manifest);
  REQUIRE(manifest.rows.empty());
  return manifest;
}

Manifest list_of_set(const Dataset& dataset) {
  Manifest manifest = list_pictures(dataset, "path");
  mark_pictures(dataset, {.threads = 2}, manifest);
  return manifest;
}

// A folder of pictures, and its manifest as it was before a change.
struct Changed {
  explicit Changed(const std::function<void(const Scratch&)>& act,
                   const Files& files = kFiveFiles) {
    lay_out(scratch, files, "folder");
    before = hashes_of_set(*open());
    list_before = list_of_set(*open());
    act(scratch);
  }

  std::shared_ptr<const Dataset> open() const { return open_dataset(at(scratch.path("set"))); }

  // What is said of the change, the same whether files that were not touched are read again.
  std::string said() const {
    const auto dataset = open();
    const std::string text = changes(before, hashes_of_set(*dataset), dataset.get());
    CHECK(changes(before, hashes_of_set(*dataset, &before), dataset.get()) == text);
    return text;
  }

  // What a list says of it, the names of removed pictures left out.
  std::string said_of_list() const { return changes(list_before, list_of_set(*open())); }

  Scratch scratch;
  Manifest before, list_before;
};

TEST_CASE("ALargeSetIsKeptAsHashesASmallOneAsAList") {
  const Scratch scratch;
  const auto dataset = open_dataset(at(lay_out(scratch, kFiveFiles, "folder")));
  const Manifest at_bound = list_pictures(*dataset, "path", 5);
  CHECK(at_bound.rows.size() == 5);
  CHECK(at_bound.hashes.empty());
  const Manifest above = list_pictures(*dataset, "path", 4);
  CHECK(above.rows.empty());
  CHECK(above.hashes.size() == 5);
  CHECK(above.size() == 5);
  CHECK(sizeof(PictureHash) == 16);
  CHECK(list_pictures(*open_dataset({}), "synth:shapes", 0).size() == 0);
}

TEST_CASE("TheSamePicturesHaveTheSameHashes") {
  const Scratch scratch;
  const std::string path = lay_out(scratch, kFiveFiles, any_kind());
  const auto dataset = open_dataset(at(path));
  const Manifest manifest = hashes_of_set(*dataset);
  CHECK(is_marked(manifest));
  CHECK_FALSE(is_marked(list_pictures(*dataset, "path", kListEnds)));
  CHECK((manifest.hashes == hashes_of_set(*open_dataset(at(path))).hashes));
  CHECK(changes(manifest, hashes_of_set(*dataset, &manifest), dataset.get()).empty());
  const Manifest list = list_of_set(*dataset);
  std::vector<PictureHash> memory;
  CHECK((hashes_of(list, memory) == manifest.hashes));
  CHECK(changes(list, manifest, dataset.get()).empty());
}

TEST_CASE("EachChangeOfALargeSetIsSeen") {
  const Changed added([](const Scratch& s) { s.write("set/a/01.png", one_color(9)); });
  CHECK(added.said() == "1 picture added (a/01.png)");
  const Changed altered([](const Scratch& s) { s.write("set/b/3.png", one_color(200)); });
  CHECK(altered.said() == "1 picture altered (b/3.png)");
  const Changed touched([](const Scratch& s) {
    fs::last_write_time(s.path("set/a/1.png"), fs::file_time_type::clock::now());
  });
  CHECK(touched.said().empty());
  const Changed moved([](const Scratch& s) {
    fs::rename(s.path("set"), s.path("there"));
    fs::rename(s.path("there"), s.path("set"));
  });
  CHECK(moved.said().empty());
  for (const Changed* change : {&added, &altered, &touched, &moved})
    CHECK(change->said() == change->said_of_list());
}

// A hash cannot be turned into a name again.
TEST_CASE("RemovedPicturesOfALargeSetAreCounted") {
  for (const char* name : {"a/0.png", "a/1.png", "b/4.png"}) {
    CAPTURE(name);
    const Changed one([&](const Scratch& s) { fs::remove(s.path(std::string("set/") + name)); });
    CHECK(one.said() == "1 picture removed");
    CHECK(changes(one.list_before, hashes_of_set(*one.open()), one.open().get()) ==
          fmt::format("1 picture removed ({})", name));
  }
  const Changed renamed(
      [](const Scratch& s) { fs::rename(s.path("set/a/1.png"), s.path("set/b/1.png")); });
  CHECK(renamed.said() == "1 picture added (b/1.png), 1 removed");
}

TEST_CASE("SeveralChangesOfALargeSetAreToldApart") {
  Files files;
  for (int i = 0; i < 40; ++i)
    files.emplace_back(fmt::format("{}.png", 10 + i), one_color(static_cast<uint8_t>(i)));
  const Changed change(
      [](const Scratch& s) {
        for (const char* name : {"set/12.png", "set/30.png"}) fs::remove(s.path(name));
        for (const char* name : {"set/47.png", "set/20.png", "set/29.png", "set/13.png"})
          s.write(name, one_color(250));
        for (const char* name : {"set/99.png", "set/00.png"}) s.write(name, one_color(5));
      },
      files);
  CHECK(change.said() ==
        "2 pictures added (00.png, 99.png), 2 removed, 4 altered (13.png, 20.png, 29.png, ...)");
}

TEST_CASE("AnotherLabelInALargeSetIsAChange") {
  const auto list = [](int label) {
    return fmt::format(
        R"({{"labels": [["a/0.png", 0], ["a/1.png", 1], ["b/2.png", 0], ["b/3.png", {}], ["b/4.png", 1]]}})",
        label);
  };
  Files files = kFiveFiles;
  files.emplace_back("dataset.json", list(0));
  const Changed change([&](const Scratch& s) { s.write("set/dataset.json", list(1)); }, files);
  CHECK(change.said() == "1 picture with another label (b/3.png)");
}

// Each label of fewer than 65,536 classes has bits of its own.
TEST_CASE("LabelsOfClassesNeverPassForEachOther") {
  std::set<uint64_t> all;
  for (int64_t label = -1; label < 65535; ++label)
    all.insert(hash_of({.name = "a", .label = label}).label);
  CHECK(all.size() == 65536);
}

// Names of one hash are compared in their order.
TEST_CASE("PicturesWhoseNamesHaveOneHashAreNoChange") {
  Manifest before{.path = "path", .rows = {}};
  for (const char* name : {"a", "b", "c", "d", "e"})
    before.hashes.push_back(hash_of({.name = name, .mark = mark_of(std::string(name))}));
  before.hashes[3].name = before.hashes[1].name;
  Manifest now = before;
  CHECK(changes(before, now).empty());
  now.hashes.erase(now.hashes.begin());
  now.hashes.push_back(hash_of({.name = "f"}));
  CHECK(changes(before, now) == "1 picture added, 1 removed");
}

TEST_CASE("WhatIsNotMarkedInALargeSetIsNotRead") {
  const Scratch scratch;
  const auto dataset = open_dataset(at(lay_out(scratch, kFiveFiles, "folder")));
  Manifest known = list_pictures(*dataset, "path", kListEnds);
  const Manifest whole = hashes_of_set(*dataset);
  known.hashes[1] = whole.hashes[1];
  const Manifest now = hashes_of_set(*dataset, &known);
  CHECK((now.hashes == known.hashes));
  CHECK_FALSE(is_marked(now));
}

// A file that has not changed since is not read again, which a wrong mark shows.
TEST_CASE("UntouchedFilesOfALargeSetAreNotReadAgain") {
  const Changed change([](const Scratch& s) { fs::remove(s.path("set/a/0.png")); });
  Manifest known = change.before;
  known.hashes[4].content ^= 1;
  const auto dataset = change.open();
  CHECK(hashes_of_set(*dataset, &known).hashes[3].content == known.hashes[4].content);
  CHECK(changes(known, hashes_of_set(*dataset), dataset.get()) ==
        "1 picture removed, 1 altered (b/4.png)");
}

TEST_CASE("APictureOfALargeSetThatCannotBeReadStaysUnmarked") {
  const Scratch scratch;
  const auto dataset = open_dataset(at(lay_out(scratch, kFiveFiles, "folder")));
  const Manifest known = hashes_of_set(*dataset);
  fs::remove(scratch.path("set/a/1.png"));
  Manifest now = list_pictures(*dataset, "path", kListEnds);
  CHECK(contains(
      input_error([&] { mark_pictures(*dataset, {.threads = 2, .known = &known}, now); }), "a/1"));
  now = list_pictures(*dataset, "path", kListEnds);
  CHECK(mark_pictures(*dataset, {.threads = 2, .known = &known, .lenient = true}, now) == 1);
  CHECK(now.hashes[1].kind == 0);
  CHECK((now.hashes[3] == known.hashes[3]));
  CHECK(changes(known, now, dataset.get()).empty());
}

// A zip has other hashes than files, so only the size can be compared.
TEST_CASE("AZipOfALargeSetIsComparedWithItsFilesBySize") {
  const Scratch scratch;
  Files files;
  for (int i = 0; i < 4; ++i) files.emplace_back(fmt::format("{}.png", i), png(16 + i, 16, 3));
  const Manifest before = hashes_of_set(*open_dataset(at(lay_out(scratch, files, "folder"))));
  const auto zip = open_dataset(at(lay_out(scratch, files, "stored")));
  CHECK(changes(before, hashes_of_set(*zip), zip.get()).empty());
  files[1].second = png(40, 30, 3);
  const auto other = open_dataset(at(lay_out(scratch, files, "stored")));
  CHECK(changes(before, hashes_of_set(*other), other.get()) == "1 picture altered (1.png)");
}

std::shared_ptr<const Dataset> open_skipping(const std::string& path) {
  DataOptions options = at(path);
  options.on_bad = OnBad::kSkip;
  return open_dataset(options);
}

TEST_CASE("BrokenPicturesOfALargeSetAreNoChangeWhereTheyAreLeftOut") {
  const Scratch scratch;
  const std::string path = lay_out(scratch, kFiveFiles, "folder");
  const auto whole = open_skipping(path);
  const Manifest before = hashes_of_set(*whole);
  scratch.write("set/a/1.png", one_color(10).substr(0, 30));
  SECTION("left out when the data is opened") {
    const auto dataset = open_skipping(path);
    Manifest now = hashes_of_set(*dataset, &before);
    CHECK(changes(before, now, dataset.get()) == "1 picture removed");
    CHECK(take_broken(*dataset, before, now) == std::vector<std::string>{"a/1.png"});
    CHECK(changes(before, now, dataset.get()).empty());
    CHECK((now.hashes.back() == before.hashes[1]));
    Manifest again = hashes_of_set(*dataset, &now);
    CHECK(take_broken(*dataset, now, again) == std::vector<std::string>{"a/1.png"});
    CHECK((again.hashes == now.hashes));
    scratch.write("set/a/1.png", one_color(10));
    const auto mended = open_skipping(path);
    CHECK(changes(now, hashes_of_set(*mended, &now), mended.get()).empty());
  }
  SECTION("broken behind the back of the data that is open") {
    Manifest now = hashes_of_set(*whole, &before);
    CHECK(changes(before, now, whole.get()) == "1 picture altered (a/1.png)");
    CHECK(take_broken(*whole, before, now) == std::vector<std::string>{"a/1.png"});
    CHECK(changes(before, now, whole.get()).empty());
  }
}

TEST_CASE("ASetIsComparedAsItWasKept") {
  const Scratch scratch;
  const auto dataset = open_dataset(at(lay_out(scratch, kFiveFiles, "folder")));
  const auto as_hashes = [&](const Manifest& before, int64_t most) {
    const Manifest now = list_again(*dataset, "path", before, most);
    REQUIRE(now.size() == 5);
    return now.rows.empty();
  };
  const Manifest hashes = hashes_of_set(*dataset), list = list_of_set(*dataset);
  CHECK(as_hashes(hashes, 4));
  CHECK(as_hashes(hashes, 5));  // fewer than there were
  CHECK_FALSE(as_hashes(list, 5));
  CHECK_FALSE(as_hashes(list, 4));  // a list of an earlier version
  Manifest shorter = list;
  shorter.rows.pop_back();
  CHECK_FALSE(as_hashes(shorter, 5));
  CHECK(as_hashes(shorter, 4));  // more than there were
  const Manifest now = list_again(*dataset, "path", shorter, 4);
  CHECK(changes(shorter, now, dataset.get()) == "1 picture added (b/4.png)");
  Manifest marked = now;
  mark_pictures(*dataset, {.threads = 2, .known = &shorter}, marked);
  CHECK((marked.hashes[3] == hashes.hashes[3]));
  CHECK(marked.hashes[4].kind == 0);
}

TEST_CASE("ALargeManifestIsReadBack") {
  const Scratch scratch;
  const auto dataset = open_dataset(at(lay_out(scratch, kFiveFiles, "folder")));
  Manifest written = hashes_of_set(*dataset);
  written.path = "pictures \xff";
  write_manifest(scratch.path(), written);
  const auto read = read_manifest(scratch.path());
  REQUIRE(read);
  CHECK((read->hashes == written.hashes));
  CHECK(read->path == valid_text(written.path));
  const std::string content = read_file(scratch.path("data-manifest.bin"));
  CHECK(content.size() == content.find('\n') + 1 + 5 * 16 + 32);
  // The bytes are the same on all machines.
  const std::string_view row = std::string_view(content).substr(content.find('\n') + 1, 16);
  const LittleEndian numbers(row);
  const PictureHash& first = written.hashes.front();
  CHECK(numbers.u64(0) == first.name);
  CHECK(numbers.u64(8) ==
        (uint64_t{first.label} | uint64_t{first.stamp} << 16 | uint64_t{first.kind} << 36 |
         uint64_t{first.size} << 38 | uint64_t{first.content} << 44));
}

TEST_CASE("OneOfTheTwoFilesLiesInAFolder") {
  const Scratch scratch;
  const auto dataset = open_dataset(at(lay_out(scratch, kFiveFiles, "folder")));
  write_manifest(scratch.path(), list_of_set(*dataset));
  CHECK(fs::exists(scratch.path("data-manifest.jsonl")));
  write_manifest(scratch.path(), hashes_of_set(*dataset));
  CHECK_FALSE(fs::exists(scratch.path("data-manifest.jsonl")));
  CHECK(read_manifest(scratch.path())->rows.empty());
  write_manifest(scratch.path(), list_of_set(*dataset));
  CHECK_FALSE(fs::exists(scratch.path("data-manifest.bin")));
  CHECK(read_manifest(scratch.path())->rows.size() == 5);
}

TEST_CASE("ADamagedLargeManifestIsRefused") {
  const Scratch scratch;
  const auto dataset = open_dataset(at(lay_out(scratch, kFiveFiles, "folder")));
  write_manifest(scratch.path(), hashes_of_set(*dataset));
  const std::string whole = read_file(scratch.path("data-manifest.bin"));
  const auto refused = [&](const std::string& content) {
    scratch.write("data-manifest.bin", content);
    const std::string error = input_error([&] { read_manifest(scratch.path()); });
    INFO(error);
    CHECK(contains(error, "data-manifest.bin: "));
    CHECK(error.size() < 300);
  };
  for (size_t size = 0; size < whole.size(); ++size) refused(whole.substr(0, size));
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    CAPTURE(at);
    refused(damaged);
  }
  refused(whole + "x");
  refused(std::string(100000, '['));
  const std::string format = R"({"format": "gantrain.data-manifest.2", "pictures": )";
  for (const char* pictures : {"-1", "1e30", "18446744073709551615", "1152921504606846976", "{}"})
    refused(format + pictures + "}\n" + std::string(48, '0'));
  fs::remove(scratch.path("data-manifest.bin"));
  fs::create_symlink(scratch.path("set/a/0.png"), scratch.path("data-manifest.bin"));
  CHECK(contains(input_error([&] { read_manifest(scratch.path()); }), "is a link"));
}

// The ranks of an elastic run may change before all pictures are marked: the next rank 0 reads the
// manifest from the folder.
TEST_CASE("AManifestThatWasReadFromAFileIsMarkedFurther") {
  const Scratch scratch;
  const auto dataset = open_dataset(at(lay_out(scratch, kFiveFiles, "folder")));
  for (const int64_t most : {kListEnds, kMostListed}) {
    CAPTURE(most);
    Manifest whole = list_pictures(*dataset, "path", most);
    write_manifest(scratch.path(), whole);
    mark_pictures(*dataset, {.threads = 2}, whole);
    Manifest read = *read_manifest(scratch.path());
    CHECK_FALSE(is_marked(read));
    CHECK(mark_pictures(*dataset, {.threads = 2}, read) == 0);
    CHECK(is_marked(read));
    CHECK(changes(whole, read, dataset.get()).empty());
    CHECK((read.hashes == whole.hashes));
  }
}

// What was left out is no picture of the data that stands at its place.
TEST_CASE("OtherPicturesThanTheFilesAreNotMarked") {
  const Scratch scratch;
  const auto dataset = open_dataset(at(lay_out(scratch, kFiveFiles, "folder")));
  for (const int64_t most : {kListEnds, kMostListed}) {
    Manifest manifest = list_pictures(*dataset, "path", most);
    write_manifest(scratch.path(), manifest);
    manifest = *read_manifest(scratch.path());
    if (most == kListEnds) std::swap(manifest.hashes[0], manifest.hashes[1]);
    if (most != kListEnds) std::swap(manifest.rows[0], manifest.rows[1]);
    mark_pictures(*dataset, {.threads = 1}, manifest);
    CHECK_FALSE(is_marked(manifest));
  }
}

TEST_CASE("ASampledDigestSeesNamesLabelsAndSomeContents") {
  const auto digest = [](const Files& files, int64_t read) {
    const Scratch scratch;
    return sampled_digest(*open_dataset(at(lay_out(scratch, files, "folder"))), read);
  };
  const std::string before = digest(kFiveFiles, 5);
  CHECK(before.size() == 64);
  CHECK(digest(kFiveFiles, 5) == before);
  Files other = kFiveFiles;
  other[3].second = one_color(77);
  CHECK(digest(other, 5) != before);
  CHECK(digest(other, 1) == digest(kFiveFiles, 1));
  other = kFiveFiles;
  other[4].first = "b/5.png";
  CHECK(digest(other, 1) != digest(kFiveFiles, 1));
}

}  // namespace
}  // namespace gantrain
