// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "curation/picture_store.h"
#include "data/containers/source.h"
#include "data/containers/zip.h"
#include "data/scratch.h"

namespace gantrain {
namespace {

std::string archive(std::vector<StoredEntry> entries, const std::string& content) {
  std::string bytes;
  for (StoredEntry& entry : entries) {
    entry.size = content.size();
    entry.checksum = checksum_of(content);
    entry.header = bytes.size();
    bytes += local_header(entry) + content;
  }
  return bytes + central_directory(entries, bytes.size());
}

TEST_CASE("ArchivesOfMoreThan65535EntriesAreRead") {
  std::vector<StoredEntry> entries;
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
  const uint64_t far = (uint64_t{1} << 32) + 5;
  const std::vector<StoredEntry> entries = {{.name = "a", .size = 3, .checksum = 1, .header = far}};
  const std::string directory = central_directory(entries, far + 40);
  CHECK(directory.find("PK\6\6") != std::string::npos);
  CHECK(directory.find("PK\6\7") != std::string::npos);
  const std::string field = {1, 0, 8, 0, 5, 0, 0, 0, 1, 0, 0, 0};
  CHECK(directory.find(field) != std::string::npos);
}

TEST_CASE("SmallArchivesNeedNoZip64") {
  CHECK(archive({{.name = "a.png"}}, "x").find("PK\6\6") == std::string::npos);
}

TEST_CASE("AnEntryOf4GiBIsRefused") {
  CHECK_THROWS_AS(local_header({.name = "a", .size = uint64_t{1} << 32}), std::invalid_argument);
}

}  // namespace
}  // namespace gantrain
