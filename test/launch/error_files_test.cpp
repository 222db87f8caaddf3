// SPDX-License-Identifier: Apache-2.0
#include "launch/death/error_files.h"

#include <cmath>
#include <cstdlib>
#include <memory>

#include "support/catch.h"
#include "support/temporary_folder.h"
#include "util/file.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

Death death(int code, const std::string& message) {
  Death f;
  f.host = "node7";
  f.rank = 3;
  f.pid = 4711;
  f.code = code;
  f.message = message;
  f.phase = "D backward";
  f.iteration = 12;
  f.images_seen = 1500;
  return f;
}

}  // namespace

TEST_CASE("AnErrorFileHasTheWholeMessage") {
  std::string message = "first line";
  for (int i = 0; i < 50; ++i) message += "\nline " + std::to_string(i);
  const Json file = error_file(death(5, message), {.local_rank = 1}, 1e9);
  const std::string text = file["message"]["message"];
  CHECK(text.find("rank 3 (node7, pid 4711)") == 0);
  CHECK(text.find(message) != std::string::npos);
  const Json& extra = file["message"]["extraInfo"];
  CHECK(extra["timestamp"] == "1000000000");
  CHECK(extra["time"] == "2001-09-09T01:46:40Z");
  CHECK(extra["exit_code"] == 5);
  CHECK(extra["signal"].is_null());
  CHECK(extra["signal_name"].is_null());
  CHECK(extra["kimg"] == 1.5);
  CHECK(extra["local_rank"] == 1);
  CHECK(extra["last_state"].is_null());
}

TEST_CASE("AnErrorFileTakesTextThatIsNotUtf8") {
  const TemporaryFolder folder;
  write_error_file(folder.path(), 3, error_file(death(3, "a\xff.png"), {}, 1e9));
  const Json file = Json::parse(read_file(folder / "errors/rank3.json"));
  CHECK(file["message"]["message"].get<std::string>().find(".png") != std::string::npos);
}

TEST_CASE("ErrorsAreNotWrittenWhereALinkLeads") {
  const TemporaryFolder folder, others;
  write_file(others / "rank3.json", "theirs");
  fs::create_directory_symlink(others.path(), folder / "errors");
  write_file(others / "pids.json", "theirs");
  write_error_file(folder.path(), 3, error_file(death(5, ""), {}, 1e9));
  set_errors_aside(folder.path());
  remove_pids(folder.path(), 0);
  CHECK(pids_text(folder.path(), 0).empty());
  for (const char* name : {"rank3.json", "pids.json"}) CHECK(read_file(others / name) == "theirs");
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("ErrorsOfEarlierSessionsAreAllKept") {
  const TemporaryFolder folder;
  for (int session = 1; session <= 3; ++session) {
    set_errors_aside(folder.path());
    CHECK(!fs::exists(folder / "errors/rank3.json"));
    write_error_file(folder.path(), 3, error_file(death(session, ""), {}, 1e9));
  }
  const auto code = [&](const std::string& path) {
    return Json::parse(read_file(folder / path))["message"]["extraInfo"]["exit_code"].get<int>();
  };
  CHECK(code("errors/earlier-1/rank3.json") == 1);
  CHECK(code("errors/earlier-2/rank3.json") == 2);
  CHECK(code("errors/rank3.json") == 3);
}

TEST_CASE("TheCollectivesOfARankOutliveIt") {
  const TemporaryFolder folder;
  const auto trace = std::make_unique<RankTrace>();
  write_collectives(folder.path(), 3, *trace);
  CHECK(!fs::exists(folder / "errors"));  // it has entered none
  trace->set_phase("D \xff");
  trace->ended(trace->enter("all-reduce", "gradients", 2, 64, true));
  trace->enter("broadcast", "", 1, 8, true);
  write_collectives(folder.path(), 3, *trace);
  const auto lines = split(trim(read_file(folder / "errors/collectives-rank3.jsonl")), '\n');
  REQUIRE(lines.size() == 2);
  const Json first = Json::parse(lines[0]), second = Json::parse(lines[1]);
  CHECK(first["number"] == 1);
  CHECK(first["purpose"] == "gradients");
  CHECK(first["bytes"] == 64);
  CHECK(first["seconds"].get<double>() >= 0);
  CHECK(std::abs(first["begun"].get<double>() - unix_seconds()) < 60);
  CHECK(second["what"] == "broadcast");
  CHECK(second["seconds"].is_null());
  set_errors_aside(folder.path());
  CHECK(fs::exists(folder / "errors/earlier-1/collectives-rank3.jsonl"));
}

TEST_CASE("WordsOfWorkersAreReadByTheOthers") {
  const TemporaryFolder folder;
  const int64_t start = monotonic_ns();
  CHECK(words_in(folder.path(), 0).empty());
  Death stopped = death(6, "a\xff.png");
  stopped.kind = Death::Kind::kAlive;
  stopped.progress.stopped = true;
  write_word(folder.path(), stopped);
  write_file(folder / "errors/word-rank4.json", "{\"kind\": \"another version's\"}");
  write_error_file(folder.path(), 5, error_file(death(5, ""), {}, 1e9));
  const std::vector<Death> words = words_in(folder.path(), start);
  REQUIRE(words.size() == 1);
  CHECK(words[0].rank == 3);
  CHECK(words[0].kind == Death::Kind::kAlive);
  CHECK(words[0].progress.stopped);
  CHECK(words[0].phase == "D backward");
  CHECK(words[0].ns <= monotonic_ns());
  CHECK(words_in(folder.path(), monotonic_ns() + 60'000'000'000).empty());  // an earlier session's
  set_errors_aside(folder.path());
  CHECK(words_in(folder.path(), 0).empty());
}

TEST_CASE("WhatIsNoRanksFailureHasItsOwnWords") {
  Death lost = death(6, "node 1 (h): its launcher has given no sign of life for 5s");
  lost.kind = Death::Kind::kLauncher;
  lost.pid = 0;
  const Json file = error_file(lost, {}, 1e9);
  CHECK(file["message"]["message"] == lost.message);
  CHECK(file["message"]["extraInfo"]["pid"].is_null());
  CHECK(file["message"]["extraInfo"]["rank"] == 3);
}

TEST_CASE("PidsHaveAFileForEachLauncherAndLeaveNothingBehind") {
  const TemporaryFolder folder;
  write_pids(folder.path(), {"a", 10, {{0, 11}, {1, 12}}, 0});
  write_pids(folder.path(), {"b", 20, {{3, 22}}, 2});  // rank 2 is lost
  const Json first = Json::parse(read_file(folder / "errors/pids.json"));
  CHECK(first["1"] == 12);
  CHECK(first["launcher"] == 10);
  CHECK(first.begin().key() == "0");
  CHECK(Json::parse(read_file(folder / "errors/pids-rank2.json"))["host"] == "b");
  remove_pids(folder.path(), 0);
  CHECK(fs::exists(folder / "errors/pids-rank2.json"));
  remove_pids(folder.path(), 2);
  CHECK(!fs::exists(folder / "errors"));
}

}  // namespace gantrain
