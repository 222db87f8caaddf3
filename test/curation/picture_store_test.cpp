// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "curation/packing.h"
#include "data/containers/formats.h"
#include "data/containers/source.h"
#include "data/scratch.h"
#include "support/catch.h"
#include "support/pictures.h"

namespace gantrain {

namespace {

namespace fs = std::filesystem;

const Json kJob = {{"digest", "d"}};

TEST_CASE("AJournalIsReadBack") {
  const Scratch scratch;
  {
    PackJournal journal(scratch.path("j"), kJob);
    journal.add({.label = 3, .bytes = 10, .checksum = 4000000000});
    journal.add({.bad = "a.png: broken \xff"});
    journal.flush();
  }
  const PackJournal again(scratch.path("j"), kJob);
  REQUIRE(again.pictures().size() == 2);
  CHECK(again.pictures()[0].label == 3);
  CHECK(again.pictures()[0].bytes == 10);
  CHECK(again.pictures()[0].checksum == 4000000000);
  CHECK(again.pictures()[1].bad.substr(0, 14) == "a.png: broken ");
  CHECK_FALSE(again.was_of_another_job());
}

TEST_CASE("AJournalOfAnotherJobBeginsAnew") {
  const Scratch scratch;
  {
    PackJournal journal(scratch.path("j"), kJob);
    journal.add({.bytes = 1});
    journal.flush();
  }
  {
    const PackJournal other(scratch.path("j"), {{"digest", "e"}});
    CHECK(other.was_of_another_job());
    CHECK(other.pictures().empty());
  }
  CHECK(PackJournal(scratch.path("j"), kJob).pictures().empty());
}

TEST_CASE("AHalfWrittenLineIsForgotten") {
  const Scratch scratch;
  {
    PackJournal journal(scratch.path("j"), kJob);
    journal.add({.bytes = 1});
    journal.add({.bytes = 2});
    journal.flush();
  }
  const std::string content = read_file(scratch.path("j"));
  for (size_t cut = 1; cut < 6; ++cut) {
    scratch.write("j", content.substr(0, content.size() - cut));
    CHECK(PackJournal(scratch.path("j"), kJob).pictures().size() == 1);
  }
  scratch.write("j", "no journal at all");
  CHECK(PackJournal(scratch.path("j"), kJob).pictures().empty());
}

// Only what lies behind it is cut off, so that a kill at any moment leaves the rest.
TEST_CASE("WhatIsSoundIsNotWrittenAgain") {
  const Scratch scratch;
  {
    PackJournal journal(scratch.path("j"), kJob);
    for (int64_t i = 0; i < 3; ++i) journal.add({.bytes = 100 + i});
    journal.flush();
  }
  const std::string whole = read_file(scratch.path("j"));
  const std::string two = whole.substr(0, whole.rfind('\n', whole.size() - 2) + 1);
  scratch.write("j", whole + "[1, 2");
  { const PackJournal journal(scratch.path("j"), kJob); }
  CHECK(read_file(scratch.path("j")) == whole);
  {
    PackJournal journal(scratch.path("j"), kJob);
    journal.keep_first(2);
    CHECK(journal.pictures().size() == 2);
    CHECK(read_file(scratch.path("j")) == two);
    journal.add({.bytes = 102});
    journal.flush();
  }
  CHECK(read_file(scratch.path("j")) == whole);
}

TEST_CASE("PicturesThatAreNotYetWrittenCanBeForgotten") {
  const Scratch scratch;
  PackJournal journal(scratch.path("j"), kJob);
  for (int64_t i = 0; i < 3; ++i) journal.add({.bytes = i});
  journal.keep_first(1);
  journal.add({.bytes = 7});
  journal.flush();
  const std::string content = read_file(scratch.path("j"));
  CHECK(std::count(content.begin(), content.end(), '\n') == 3);
  CHECK(content.find("[-1,7,0,\"\"]\n") != std::string::npos);
  CHECK(content.find("[-1,1,0,\"\"]\n") == std::string::npos);
}

TEST_CASE("ASecondPackerIsRefused") {
  const Scratch scratch;
  const PackJournal first(scratch.path("j"), kJob);
  CHECK_FALSE(user_error(Exit::kUsage, [&] { PackJournal(scratch.path("j"), kJob); }).empty());
}

std::string archive(std::vector<ZipEntry> entries, const std::string& content) {
  std::string bytes;
  for (ZipEntry& entry : entries) {
    entry.size = content.size();
    entry.checksum = checksum_of(content);
    entry.header = bytes.size();
    bytes += local_header(entry) + content;
  }
  return bytes + central_directory(entries, bytes.size());
}

TEST_CASE("ArchivesOfMoreThan65535EntriesAreRead") {
  std::vector<ZipEntry> entries;
  for (int i = 0; i < 70000; ++i) entries.push_back({.name = fmt::format("{:08}.png", i)});
  const Scratch scratch;
  scratch.write("many.zip", archive(entries, "x"));
  const auto source = open_zip(scratch.path("many.zip"));
  REQUIRE(source->files().size() == 70000);
  std::string content;
  source->read(69999, content);
  CHECK(content == "x");
}

TEST_CASE("NumbersBeyond32BitsStandInZip64Fields") {
  const int64_t far = (int64_t{1} << 32) + 5;
  const std::vector<ZipEntry> entries = {{.name = "a", .header = far, .size = 3, .checksum = 1}};
  const std::string directory = central_directory(entries, far + 40);
  CHECK(directory.find("PK\6\6") != std::string::npos);
  CHECK(directory.find("PK\6\7") != std::string::npos);
  const std::string field = {1, 0, 8, 0, 5, 0, 0, 0, 1, 0, 0, 0};
  CHECK(directory.find(field) != std::string::npos);
}

TEST_CASE("APlantedLinkOfAnUnfinishedDataSetIsNotFollowed") {
  const Scratch scratch, others;
  others.write("victim", "secret");
  fs::create_symlink(others.path("victim"), scratch.path("a.zip.partial"));
  fs::create_symlink(others.path("victim"), scratch.path("a.zip.partial.journal"));
  fs::create_directory_symlink(others.path(), scratch.path("b.partial"));
  const auto refusal = [](const std::function<void()>& open) {
    return user_error(Exit::kDisk, open);
  };
  for (const std::string& text :
       {refusal([&] { make_zip_store(scratch.path("a.zip")); }),
        refusal([&] { PackJournal(journal_path(scratch.path("a.zip")), kJob); }),
        refusal([&] { make_folder_store(scratch.path("b")); })}) {
    CAPTURE(text);
    CHECK(text.find(": is a link, which is not followed") != std::string::npos);
  }
  const auto store = make_folder_store(scratch.path("c"));
  fs::create_directories(scratch.path("c.partial/00000"));
  fs::create_directory_symlink(others.path(), scratch.path("c.partial/00001"));
  fs::create_symlink(others.path("victim"), scratch.path("c.partial/00000/victim"));
  const ZipEntry entry = {.name = "00000/victim", .size = 6, .checksum = checksum_of("secret")};
  CHECK(store->go_on({}, {}) == 0);  // all that lies there goes
  CHECK_FALSE(fs::exists(scratch.path("c.partial/00000")));
  fs::create_directories(scratch.path("c.partial/00000"));
  fs::create_symlink(others.path("victim"), scratch.path("c.partial/00000/victim"));
  fs::create_directory_symlink(others.path(), scratch.path("c.partial/00001"));
  store->add(entry, "public");
  CHECK(read_file(scratch.path("c.partial/00000/victim")) == "public");
  CHECK_FALSE(fs::is_symlink(scratch.path("c.partial/00000/victim")));
  CHECK_FALSE(refusal([&] { store->add({.name = "00001/victim"}, "public"); }).empty());
  CHECK(read_file(others.path("victim")) == "secret");
}

TEST_CASE("WhatALinkLeadsToIsNoPictureThatIsThereAlready") {
  const Scratch scratch, others;
  others.write("picture", "content");
  const auto store = make_folder_store(scratch.path("c"));
  fs::create_directories(scratch.path("c.partial/00000"));
  const fs::path path = scratch.path("c.partial/00000/a.png");
  const ZipEntry entry = {.name = "00000/a.png", .size = 7, .checksum = checksum_of("content")};
  write_file(path, "content");
  CHECK(store->go_on({entry}, {}) == 1);
  fs::remove(path);
  fs::create_symlink(others.path("picture"), path);
  CHECK(store->go_on({entry}, {}) == 0);
}

TEST_CASE("SmallArchivesNeedNoZip64") {
  CHECK(archive({{.name = "a.png"}}, "x").find("PK\6\6") == std::string::npos);
}

TEST_CASE("AnEntryOf4GiBIsRefused") {
  CHECK_THROWS_AS(local_header({.name = "a", .size = int64_t{1} << 32}), std::invalid_argument);
}

}  // namespace

}  // namespace gantrain
