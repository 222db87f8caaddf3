// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "support/catch.h"
#include "support/tiny.h"
#include "util/file.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

void kill_rank(const fs::path& run) {
  REQUIRE(::kill(pids_of(run).at("0").get<pid_t>(), SIGKILL) == 0);
}

int64_t occurrences(const std::string& text, const std::string& part) {
  int64_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

}  // namespace

TEST_CASE("ARestartBeforeTheFirstSaveGoesOnFromTheStateThatWasAskedFor") {
  const TemporaryFolder folder;
  trained(folder, "a", "--kimg 0.064");
  Command command(tiny("--run-dir b --resume a --kimg 500 --max-restarts 1"),
                  {.folder = folder.path()});
  REQUIRE(command.wait_for("speed  "));
  REQUIRE(files_like(folder / "b", "state-").empty());
  kill_rank(folder / "b");
  REQUIRE(command.wait_for("starting the ranks again"));
  const auto resumes = [&] {
    return occurrences(read_file(folder / "b/log.txt"),
                       "resume  at 0.064 kimg (a/state-000000.064.pt)");
  };
  CHECK(eventually([&] { return resumes() == 2; }, 60));
  command.signal(SIGTERM);
  const Outcome outcome = command.wait();
  INFO(outcome.err);
  CHECK(outcome.code == 75);
}

TEST_CASE("AModelThatASessionWasKilledBeforeIsMadeByTheNext") {
  const TemporaryFolder folder;
  const fs::path run = trained(folder, "a", "--kimg 0.064");
  const std::string weights = model_sha(run);
  fs::remove(last_model(run));
  write_file(run / "STATUS", "running\n");
  train(folder, "a", "--kimg 0.064");
  CHECK(last_model(run).filename() == "model-000000.064.safetensors");
  CHECK(model_sha(run) == weights);
}

TEST_CASE("TheCommandThatGoesOnAfterADeathBeforeTheFirstSaveKeepsTheStateThatWasAskedFor") {
  const TemporaryFolder folder;
  trained(folder, "a", "--kimg 0.064");
  Command command(tiny("--run-dir b --resume a --kimg 500"), {.folder = folder.path()});
  REQUIRE(command.wait_for("speed  "));
  kill_rank(folder / "b");
  const Outcome outcome = command.wait();
  INFO(outcome.err);
  CHECK(outcome.code == 6);
  const size_t next = outcome.err.find("\nnext    ");
  REQUIRE(next != std::string::npos);
  const std::string hint = outcome.err.substr(next);
  CHECK(hint.find("--resume a") != std::string::npos);
  CHECK(hint.find("--resume auto") == std::string::npos);
}

TEST_CASE("ACommandThatBeganAtAnotherRunsStateGoesOnWhereItsOwnRunStands") {
  const TemporaryFolder folder;
  trained(folder, "a", "--kimg 0.064");
  const fs::path run = train(folder, "b", "--resume a --kimg 0.128");
  const auto resumed = [&] { return text_in(run / "log.txt"); };
  CHECK(occurrences(resumed(), "resume  at 0.064 kimg (a/") == 1);
  train(folder, "b", "--resume a --kimg 0.192");
  CHECK(occurrences(resumed(), "resume  at 0.128 kimg (b/") == 1);
  // Also after a session with another word for it, as the program advises.
  train(folder, "b", "--resume auto --kimg 0.208");
  train(folder, "b", "--resume a --kimg 0.224");
  CHECK(occurrences(resumed(), "resume  at 0.208 kimg (b/") == 1);
  // Another command may go back.
  train(folder, "b", "--resume a/state-000000.064.pt --kimg 0.128");
  CHECK(occurrences(resumed(), "resume  at 0.064 kimg (a/") == 2);
}

// Rank 0 measures for longer than either timeout.
TEST_CASE("MetricsLongerThanTheTimeoutsDoNoHarm") {
  const TemporaryFolder folder;
  const Outcome outcome =
      gantrain(tiny("--nproc 2 --run-dir run --timeout 5s --hang-timeout 5s --metrics swd "
                    "--kimg 0.064 --set metrics.at_start=off --set metrics.images=6000"),
               {.folder = folder.path()});
  INFO(outcome.err);
  CHECK(outcome.code == 0);
  CHECK(outcome.err.find("metric  swd") != std::string::npos);
}

}  // namespace gantrain
