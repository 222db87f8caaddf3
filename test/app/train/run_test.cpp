// SPDX-License-Identifier: Apache-2.0
// Runs of a second: what they leave, how they die, and who starts them.
#include <signal.h>

#include <memory>
#include <sstream>

#include "config/value.h"
#include "support/catch.h"
#include "support/reserved_port.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

TEST_CASE("ARunLeavesWhatIsPromised") {
  const TemporaryFolder folder;
  for (int i = 0; i < 2; ++i) {
    const Outcome outcome =
        gantrain(tiny("--nproc 2 --set save.every=0.25 --seed 3"), {.folder = folder.path()});
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find('\r') == std::string::npos);
    CHECK(outcome.err.find("[rank 1]") == std::string::npos);  // only errors come from there
    CHECK(outcome.err.find("Warning:") == std::string::npos);  // LibTorch's own
    CHECK(outcome.err.find("gantrain generate --model") != std::string::npos);
  }
  const std::vector<fs::path> runs = files_like(folder / "runs", "0000");
  REQUIRE(runs.size() == 2);
  CHECK(fs::equivalent(folder / "runs/latest", runs[1]));
  CHECK(starts_with(runs[1].filename().string(), "00001-"));
  for (const std::string name : {"config.json",
                                 "command.txt",
                                 "env.json",
                                 "log.txt",
                                 "stats.jsonl",
                                 "report.html",
                                 "STATUS",
                                 "samples/reals.png",
                                 "samples/fakes_init.png",
                                 "samples/latest.png"}) {
    CAPTURE(name);
    CHECK(fs::is_regular_file(runs[1] / name));
  }
  CHECK(files_like(runs[1], "events.out.tfevents.").size() == 1);
  CHECK(files_like(runs[1], "model-000000.").size() == 3);  // at 0, 0.256 and 0.512
  CHECK(files_like(runs[1], "state-000000.").size() == 2);
  CHECK(starts_with(read_file(runs[1] / "STATUS"), "done"));
  CHECK(read_file(runs[1] / "command.txt").find("--seed 3") != std::string::npos);
  const Json config = Json::parse(read_file(runs[1] / "config.json"));
  CHECK(config.at("values").at("train.seed").at("value") == 3);
  std::istringstream stats(read_file(runs[1] / "stats.jsonl"));
  Json row;
  for (std::string line; std::getline(stats, line);) row = Json::parse(line);
  for (const std::string name : {"Progress/kimg",
                                 "Progress/tick",
                                 "Loss/G/loss",
                                 "Loss/D/loss",
                                 "Loss/scores/real",
                                 "Loss/scores/fake",
                                 "Loss/signs/real",
                                 "Timing/sec_per_kimg",
                                 "Timing/data_wait",
                                 "Timing/comm",
                                 "Resources/cpu_mem_gb"}) {
    CAPTURE(name);
    for (const std::string part : {"num", "mean", "std"}) CHECK(row.at(name).at(part).is_number());
  }
  CHECK(row.contains("timestamp"));
  CHECK(row.at("Progress/kimg").at("mean") == Approx(0.512));
}

TEST_CASE("SamplesAndMetricsLeaveNoTrace") {
  const TemporaryFolder folder;
  const std::string without = model_sha(trained(folder, "without", "--kimg 0.16"));
  CHECK(model_sha(train(folder,
                        "with",
                        "--kimg 0.16 --metrics swd,msssim --set metrics.every=0.064 --set "
                        "metrics.images=64 --set samples.every=0.032")) == without);
}

TEST_CASE("ADeadRankEndsTheRunAndIsNamedLast") {
  const TemporaryFolder folder;
  Command command(tiny("--run-dir run --nproc 2 --kimg 500 --set save.every=0.2"),
                  {.folder = folder.path()});
  REQUIRE(command.wait_for("tick 1"));
  const Json pids = pids_of(folder / "run");
  REQUIRE(kill(pids.at("1").get<pid_t>(), SIGKILL) == 0);
  CHECK(eventually([&] { return !is_alive(pids.at("0").get<pid_t>()); }, 60));
  const Outcome outcome = command.wait();
  CHECK(outcome.code == 6);
  CHECK(outcome.left.empty());
  CHECK(!fs::exists(folder / "run/errors/pids.json"));
  const size_t at = outcome.err.find("error   rank 1");
  REQUIRE(at != std::string::npos);
  const std::string last = outcome.err.substr(at);
  for (const std::string part : {"SIGKILL", "phase", "next    ", "--run-dir run"}) {
    CAPTURE(part);
    CHECK(last.find(part) != std::string::npos);
  }
}

TEST_CASE("NoRankOutlivesAKilledLauncher") {
  for (const std::string until : {"data    ", "tick 1"}) {
    CAPTURE(until);
    const TemporaryFolder folder;
    Command command(tiny("--run-dir run --nproc 2 --kimg 500 --set train.tick=0.1"),
                    {.folder = folder.path()});
    REQUIRE(command.wait_for(until));
    CHECK(command.family().size() >= 3);  // launcher and two ranks: the search finds them
    command.signal(SIGKILL);
    CHECK(eventually([&] { return command.family().empty(); }, 60));
    CHECK(command.wait().code == 128 + SIGKILL);
  }
}

TEST_CASE("SmokeAlwaysPrintsTheSameSum") {
  std::vector<std::string> printed;
  for (int i = 0; i < 2; ++i) {
    const TemporaryFolder folder;
    const Outcome outcome = gantrain(words_of("--smoke --kimg 0.1"), {.folder = folder.path()});
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK(outcome.left.empty());
    const std::vector<fs::path> runs = files_like(folder / "runs", "0000");
    REQUIRE(runs.size() == 1);
    CHECK(files_like(runs[0], "state-").size() >= 1);
    CHECK(files_like(runs[0], "metric-").size() == 2);
    printed.push_back(outcome.out);
  }
  CHECK_THAT(printed[0], Catch::Matches("SMOKE OK [0-9a-f]{64}\n"));
  CHECK(printed[0] == printed[1]);
}

// As torchrun starts them: each rank by itself, all told where they stand.
TEST_CASE("RanksOfAnotherLauncherTrainTheSame") {
  const TemporaryFolder folder;
  const std::string alone = model_sha(trained(folder, "alone", "--nproc 2"));
  const ReservedPort reserved;
  const std::string port = std::to_string(reserved.number());
  std::vector<std::unique_ptr<Command>> ranks;
  for (const std::string rank : {"0", "1"}) {
    const CommandOptions options{.environment = {{"RANK", rank},
                                                 {"LOCAL_RANK", rank},
                                                 {"WORLD_SIZE", "2"},
                                                 {"LOCAL_WORLD_SIZE", "2"},
                                                 {"MASTER_ADDR", "127.0.0.1"},
                                                 {"MASTER_PORT", port}},
                                 .folder = folder.path()};
    ranks.push_back(std::make_unique<Command>(tiny("--run-dir workers --local_rank " + rank),
                                              options));  // torch.distributed.launch's
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const Outcome outcome = ranks[rank]->wait();
    CAPTURE(rank);
    INFO(outcome.err);
    CHECK(outcome.code == 0);
    CHECK(outcome.left.empty());
    CHECK((outcome.err.find("done") != std::string::npos) == (rank == 0));
  }
  CHECK(model_sha(folder / "workers") == alone);
}

}  // namespace
}  // namespace gantrain
