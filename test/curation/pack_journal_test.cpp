// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>

#include "curation/picture_store.h"
#include "data/scratch.h"
#include "util/error.h"

namespace gantrain {
namespace {

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
  try {
    const PackJournal second(scratch.path("j"), kJob);
    FAIL("two at work");
  } catch (const UserError& error) {
    CHECK(error.code() == Exit::kUsage);
  }
}

}  // namespace
}  // namespace gantrain
