// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <cstring>

#include "data/containers/formats.h"
#include "data/picture_files.h"

namespace gantrain {

namespace {

std::vector<ZipEntry> directory_of(const Scratch& scratch, const std::string& bytes) {
  scratch.write("a.zip", bytes);
  return read_zip_directory(RandomAccessFile(scratch.path("a.zip"), "a.zip"));
}

std::string number(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

// An archive with one stored entry whose sizes and places stand in Zip64 fields.
std::string zip64_of(const std::string& name, const std::string& content) {
  const auto* data = reinterpret_cast<const Bytef*>(content.data());
  const uint64_t checksum = crc32_z(0, data, content.size());
  const std::string extra = number(1, 2) + number(24, 2) + number(content.size(), 8) +
                            number(content.size(), 8) + number(0, 8);
  const std::string common = number(45, 2) + number(0, 2) + number(0, 2) + number(0, 4) +
                             number(checksum, 4) + number(0xffffffff, 4) + number(0xffffffff, 4) +
                             number(name.size(), 2);
  const std::string local_extra = extra.substr(0, 20).replace(2, 2, number(16, 2));
  const std::string local = "PK\3\4" + common + number(20, 2) + name + local_extra + content;
  const std::string entry = "PK\1\2" + number(45, 2) + common + number(extra.size(), 2) +
                            number(0, 2) + number(0, 2) + number(0, 2) + number(0, 4) +
                            number(0xffffffff, 4) + name + extra;
  const std::string end64 = "PK\6\6" + number(44, 8) + number(45, 2) + number(45, 2) +
                            number(0, 4) + number(0, 4) + number(1, 8) + number(1, 8) +
                            number(entry.size(), 8) + number(local.size(), 8);
  const std::string locator =
      "PK\6\7" + number(0, 4) + number(local.size() + entry.size(), 8) + number(1, 4);
  const std::string end = "PK\5\6" + number(0, 4) + number(0xffff, 2) + number(0xffff, 2) +
                          number(0xffffffff, 4) + number(0xffffffff, 4) + number(0, 2);
  return local + entry + end64 + locator + end;
}

}  // namespace

TEST_CASE("StoredEntriesAreFoundAtTheirPlace") {
  const Scratch scratch;
  const std::vector<std::pair<std::string, std::string>> files = {
      {"a.png", one_color(1)}, {"sub/b.png", one_color(200)}, {"empty", ""}};
  scratch.write("a.zip", write_zip(files, false));
  const RandomAccessFile file(scratch.path("a.zip"), "a.zip");
  const auto entries = read_zip_directory(file);
  REQUIRE(entries.size() == files.size());
  std::string content = "left from before";
  for (size_t i = 0; i < files.size(); ++i) {
    CHECK(entries[i].name == files[i].first);
    CHECK(entries[i].stored);
    CHECK(read_stored(file, entries[i], content));
    CHECK(content == files[i].second);
  }
}

TEST_CASE("DeflatedEntriesAreLeftToLibzip") {
  const Scratch scratch;
  const auto entries = directory_of(scratch, write_zip({{"a", std::string(5000, 'a')}}, true));
  REQUIRE(entries.size() == 1);
  CHECK_FALSE(entries[0].stored);
}

TEST_CASE("Zip64FieldsAreRead") {
  const Scratch scratch;
  const std::string picture = one_color(77);
  const std::string bytes = zip64_of("a.png", picture);
  const auto entries = directory_of(scratch, bytes);
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].stored);
  std::string content;
  const RandomAccessFile file(scratch.path("a.zip"), "a.zip");
  CHECK(read_stored(file, entries[0], content));
  CHECK(content == picture);
  CHECK(open_dataset(at(scratch.path("a.zip")))->load(0).pixels[0] == 77);
}

// As Python's zipfile appends a file again.
TEST_CASE("OfSeveralEntriesOfANameTheLastOneCounts") {
  const Scratch scratch;
  const bool deflated = GENERATE(false, true);
  // The library that writes them refuses a name that is there, so these get theirs behind it.
  std::string zip = write_zip({{"a.png", one_color(1)},
                               {"dataset.json", R"({"labels": [["a.png", 0], ["b.png", 1]]})"},
                               {"b.png", one_color(2)},
                               {"X.png", one_color(3)},
                               {"dataset.jsoX", R"({"labels": [["a.png", 1], ["b.png", 0]]})"}},
                              deflated);
  for (const auto& [from, to] : {std::pair("X.png", "a.png"), std::pair("jsoX", "json")}) {
    while (zip.find(from) != std::string::npos) zip.replace(zip.find(from), std::strlen(from), to);
  }
  scratch.write("a.zip", zip);
  const auto data = open_dataset(at(scratch.path("a.zip")));
  REQUIRE(data->size() == 2);
  CHECK(data->load(0).pixels[0] == 3);
  CHECK(data->load(1).pixels[0] == 2);
  CHECK(data->label(0) == 1);
  CHECK(data->label(1) == 0);
}

TEST_CASE("DamagedContentIsNotTakenForWhole") {
  const Scratch scratch;
  std::string zip = write_zip({{"a.png", one_color(1)}, {"b.png", one_color(2)}}, false);
  const auto entries = directory_of(scratch, zip);
  REQUIRE(entries.size() == 2);
  std::string content;
  zip[60] = static_cast<char>(zip[60] ^ 1);  // inside a.png
  scratch.write("a.zip", zip);
  const RandomAccessFile file(scratch.path("a.zip"), "a.zip");
  CHECK_FALSE(read_stored(file, entries[0], content));
  CHECK(read_stored(file, entries[1], content));
  scratch.write("cut.zip", zip.substr(0, static_cast<size_t>(entries[1].header) + 50));
  const RandomAccessFile cut(scratch.path("cut.zip"), "cut.zip");
  CHECK_FALSE(read_stored(cut, entries[1], content));
}

TEST_CASE("DirectoryThatIsNoPlainOneIsNotRead") {
  const Scratch scratch;
  const std::string zip = write_zip({{"a.png", one_color(1)}}, false);
  CHECK(directory_of(scratch, "").empty());
  CHECK(directory_of(scratch, "text").empty());
  CHECK(directory_of(scratch, "program" + zip).empty());  // libzip knows what to do
  CHECK(directory_of(scratch, zip + "comment that is not announced").size() == 1);
  CHECK(directory_of(scratch, zip.substr(0, zip.size() - 1)).empty());
  const std::string wide = zip64_of("a.png", one_color(1));
  for (size_t cut = 1; cut < wide.size(); ++cut)
    CHECK(directory_of(scratch, wide.substr(0, cut)).empty());
}

}  // namespace gantrain
