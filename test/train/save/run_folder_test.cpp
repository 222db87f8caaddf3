// SPDX-License-Identifier: Apache-2.0
#include "train/save/run_folder.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "support/catch.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"

using namespace gantrain;
namespace fs = std::filesystem;

TEST_CASE("RunsGetTheNextNumberAndLatestPointsAtThem") {
  const TemporaryFolder out;
  CHECK(make_numbered_folder(out / "runs", "a").filename() == "00000-a");
  CHECK(make_numbered_folder(out / "runs", "b").filename() == "00001-b");
  fs::create_directory(out / "runs/00007-old");
  CHECK(make_numbered_folder(out / "runs", "c").filename() == "00008-c");
  CHECK(fs::read_symlink(out / "runs/latest") == "00008-c");
}

TEST_CASE("WhatHoldsNoStateIsNotResumedButBegunFrom") {
  const TemporaryFolder run;
  write_file(run / "state-000200.pt", "");
  write_file(run / "m.safetensors", "");
  write_file(run / "m.PKL", "");
  const auto refusal = [](const fs::path& where) -> std::string {
    try {
      check_resumable(where);
      return "";
    } catch (const UserError& e) {
      CHECK(e.code() == Exit::kInput);
      return e.what();
    }
  };
  CHECK(refusal(run.path()).empty());
  CHECK(refusal(run / "state-000200.pt").empty());
  const fs::path model = run / "m.safetensors";
  CHECK_THAT(refusal(model),
             Catch::StartsWith(model.string() + ": a model file holds weights") &&
                 Catch::Contains("--init-from " + model.string()));
  CHECK_THAT(refusal(run / "m.PKL"), Catch::Contains("gantrain import"));
  for (const std::string& name :
       {std::string("ffhq256"), std::string("owner/model"), std::string(5000, 'x')})
    CHECK_THAT(refusal(name), Catch::Contains("no such state") && Catch::Contains("--init-from"));
}

TEST_CASE("StatesAreFoundNewestFirst") {
  const TemporaryFolder run;
  for (const char* name : {"state-000200.pt",
                           "state-001000.pt",
                           "state-000000.160.pt",
                           "state-x.pt",
                           "model-000200.safetensors"}) {
    write_file(run / name, "");
  }
  const std::vector<NumberedFile> states = find_states(run.path());
  REQUIRE(states.size() == 3);
  CHECK(states[0].images == 1'000'000);
  CHECK(states[1].images == 200'000);
  CHECK(states[2].images == 160);
  CHECK(find_states(run / "missing").empty());
}

TEST_CASE("PruningKeepsTheNewestAndTheMilestones") {
  const TemporaryFolder run;
  for (int kimg = 100; kimg <= 1000; kimg += 100)
    write_file(run / fmt::format("state-{:06}.pt", kimg), "");
  prune_states(run.path(), 2, 500'000);
  std::vector<int64_t> left;
  for (const NumberedFile& s : find_states(run.path())) left.push_back(s.images / 1000);
  CHECK(left == std::vector<int64_t>{1000, 900, 500});
}

// It is what a finetuning goes back to.
TEST_CASE("PruningKeepsTheNewestStateUpToTheBestModel") {
  const TemporaryFolder run;
  for (int kimg = 100; kimg <= 1000; kimg += 100)
    write_file(run / fmt::format("state-{:06}.pt", kimg), "");
  for (const auto& [best, expected] :
       std::vector<std::pair<int64_t, std::vector<int64_t>>>{{250'000, {1000, 900, 200}},
                                                             {200'000, {1000, 900, 200}},
                                                             {950'000, {1000, 900}},
                                                             {-1, {1000, 900}}}) {
    CAPTURE(best);
    prune_states(run.path(), 2, 0, best);
    std::vector<int64_t> left;
    for (const NumberedFile& s : find_states(run.path())) left.push_back(s.images / 1000);
    CHECK(left == expected);
  }
}

TEST_CASE("AFolderThatCannotBeListedIsNoEmptyOne") {
  const TemporaryFolder run;
  write_file(run / "state-000100.pt", "");
  write_file(run / "file", "");
  CHECK(find_states(run / "missing", Listing::kStrict).empty());
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};  // as where all are taken
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  std::string said;
  try {
    find_states(run.path(), Listing::kStrict);
  } catch (const UserError& e) {
    said = e.what();
  }
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK_THAT(said, Catch::Contains(run.path().string() + ": cannot be listed: "));
}

TEST_CASE("ModelsArePrunedAsStatesAreButTheBestStays") {
  const TemporaryFolder run;
  for (int kimg = 0; kimg <= 1000; kimg += 100)
    write_file(run / fmt::format("model-{:06}.safetensors", kimg), "");
  for (const char* other :
       {"model-best.safetensors", "state-000100.pt", "superseded-model-000100.safetensors"})
    write_file(run / other, "");
  prune_models(run.path(), 2, 500'000);
  std::vector<int64_t> left;
  for (const NumberedFile& m : find_models(run.path())) left.push_back(m.images / 1000);
  CHECK(left == std::vector<int64_t>{1000, 900, 500});
  CHECK(images_of_model(run / "model-000900.safetensors") == 900'000);
  CHECK(images_of_model(run / "model-best.safetensors") == -1);
  CHECK(fs::exists(run / "model-best.safetensors"));
  CHECK(fs::exists(run / "state-000100.pt"));
  CHECK(fs::exists(run / "superseded-model-000100.safetensors"));
}

TEST_CASE("AHistoryThatIsLeftBehindIsSetAside") {
  const TemporaryFolder run;
  for (const char* name : {"state-000100.pt",
                           "state-000200.pt",
                           "model-000200.safetensors",
                           "model-000000.safetensors"}) {
    write_file(run / name, "");
  }
  fs::create_directory(run / "averages");
  for (const char* name : {"average-000100.000.safetensors", "average-000100.500.safetensors"})
    write_file(run / "averages" / name, "");
  CHECK(set_aside(run.path(), 100'000) == 3);
  CHECK(find_averages(run.path()).front().images == 100'000);
  CHECK(fs::exists(run / "averages/superseded-average-000100.500.safetensors"));
  CHECK(find_states(run.path()).front().images == 100'000);
  CHECK(fs::exists(run / "superseded-state-000200.pt"));
  // What was set aside before stays as it was.
  write_file(run / "state-000200.pt", "second");
  CHECK(set_aside(run.path(), 100'000) == 1);
  CHECK(read_file(run / "superseded-state-000200.pt").empty());
  CHECK(read_file(run / "superseded-2-state-000200.pt") == "second");
  CHECK(fs::exists(run / "superseded-model-000200.safetensors"));
  CHECK(set_aside(run.path(), 100'000) == 0);
}

TEST_CASE("FilesThatBelongTogetherAreSetAsideUnderOneNumber") {
  const TemporaryFolder run;
  const fs::path model = run / "model-best.safetensors", record = run / "best.json";
  write_file(model, "first");
  rename_aside({model, record});  // one of them is not there
  write_file(model, "second");
  write_file(record, "of the second");
  rename_aside({model, record});
  CHECK(read_file(run / "superseded-model-best.safetensors") == "first");
  CHECK(read_file(run / "superseded-2-model-best.safetensors") == "second");
  CHECK(read_file(run / "superseded-2-best.json") == "of the second");
}

TEST_CASE("TheResumeCommandNamesTheFolderAndWins") {
  CHECK(resume_command("gantrain --preset x", "my runs/1") ==
        "gantrain --preset x --run-dir 'my runs/1'");
  // Before the first save there is nothing in the folder to go on from.
  const TemporaryFolder run;
  const std::string command = "gantrain --run-dir r --resume other";
  CHECK(resume_command(command, run.path().string()) == command);
  write_file(run / "state-000001.pt", "");
  CHECK(resume_command(command, run.path().string()) == command + " --resume auto");
  CHECK(resume_command(command + " --resume auto", run.path().string()) ==
        command + " --resume auto");
}

TEST_CASE("TheCommandThatDrawsIsQuotedForAShell") {
  CHECK(generate_command("runs/1") == "gantrain generate --model runs/1 --seeds 0-63 -o grid.png");
  CHECK(generate_command("my runs/1", " --class 0") ==
        "gantrain generate --model 'my runs/1' --seeds 0-63 --class 0 -o grid.png");
}

TEST_CASE("ARequestIsTakenOnce") {
  const TemporaryFolder run;
  CHECK_FALSE(take_request(run.path(), "STOP"));
  write_file(run / "STOP", "");
  CHECK(take_request(run.path(), "STOP"));
  CHECK_FALSE(take_request(run.path(), "STOP"));
}

TEST_CASE("TheStatusIsOneLine") {
  const TemporaryFolder run;
  CHECK(read_status(run.path()).empty());
  write_status(run.path(), "done 3 kimg");
  CHECK(read_status(run.path()) == "done 3 kimg");
  CHECK(describe_environment("cpu", 2)["ranks"] == 2);
}

TEST_CASE("AModelIsTheFileOrTheRunsNewest") {
  const TemporaryFolder run;
  CHECK_THROWS_WITH(find_model(run.path()), Catch::Contains("holds no model-*.safetensors"));
  CHECK_THROWS_WITH(find_model(run / "none"), Catch::Contains("none: no such model"));
  for (const char* name : {"model-000200.safetensors", "model-001000.safetensors"})
    write_file(run / name, "");
  CHECK(find_model(run.path()) == run / "model-001000.safetensors");
  CHECK(find_model(run / "model-000200.safetensors") == run / "model-000200.safetensors");
}

TEST_CASE("AStateThatIsNoFileProtectsAndReplacesNone") {
  const TemporaryFolder run;
  for (const char* name : {"state-000001.pt", "state-000002.pt", "model-000001.safetensors"})
    write_file(run / name, "");
  std::filesystem::create_directory(run / "state-000003.pt");
  std::filesystem::create_directory(run / "model-000002.safetensors");
  prune_states(run.path(), 1, 0);
  CHECK(std::filesystem::exists(run / "state-000002.pt"));
  CHECK_FALSE(std::filesystem::exists(run / "state-000001.pt"));
  CHECK(find_model(run.path()) == run / "model-000001.safetensors");
}

TEST_CASE("AStatusThatIsNoRegularFileIsNone") {
  const TemporaryFolder run, others;
  write_file(others / "secret", "a secret\n");
  fs::create_symlink(others / "secret", run / "STATUS");
  CHECK(read_status(run.path()).empty());
  fs::remove(run / "STATUS");
  REQUIRE(::mkfifo((run / "STATUS").c_str(), 0600) == 0);
  CHECK(read_status(run.path()).empty());
  REQUIRE(::mkfifo((run / "model-000200.safetensors").c_str(), 0600) == 0);
  for (const char* kimg : {"1e300", "nan", "-1"})
    write_file(run / fmt::format("model-{}.safetensors", kimg), "");
  CHECK(find_models(run.path()).empty());
}
