// SPDX-License-Identifier: Apache-2.0
// Two launchers on this machine, as two nodes of one run.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>

#include "image/image.h"
#include "support/catch.h"
#include "support/reserved_port.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/system.h"

using namespace gantrain;
namespace fs = std::filesystem;

namespace {

Words node(int number, const ReservedPort& port, const std::string& more) {
  return tiny(
      fmt::format("--nproc 1 --nnodes 2 --node-rank {} --master-addr 127.0.0.1 "
                  "--master-port {} --timeout 10s {}",
                  number,
                  port.number(),
                  more));
}

struct Both {
  Outcome first, second;
};

// Starts both nodes, the second with more words of its own.
Both run_both(const TemporaryFolder& folder, const std::string& more, const std::string& second) {
  const ReservedPort port;
  const std::string run = " --run-dir " + (folder.path() / "run").string();
  Command a(node(0, port, more + run));
  Command b(node(1, port, (second.empty() ? more : second) + run));
  return {a.wait(), b.wait()};
}

void write_squares(const std::filesystem::path& folder, int count, uint8_t grey) {
  std::filesystem::create_directories(folder);
  for (int i = 0; i < count; ++i) {
    const Image image{16, 16, 1, std::vector<uint8_t>(256, static_cast<uint8_t>(grey + i))};
    write_file(folder / fmt::format("{:03}.png", i), encode_png(image));
  }
}

}  // namespace

TEST_CASE("TwoNodesTrainTogether") {
  const TemporaryFolder folder;
  const Both end = run_both(folder, "", "");
  INFO(end.first.err);
  INFO(end.second.err);
  CHECK(end.first.code == 0);
  CHECK(end.second.code == 0);
}

TEST_CASE("NodesStopTogetherWhereTheFirstKnowsThatItsAllocationEnds") {
  const TemporaryFolder folder;
  const ReservedPort port;
  const std::string same =
      "--kimg 500 --time-margin 59m59s --run-dir " + (folder.path() / "run").string();
  const std::string hour = std::to_string(static_cast<int64_t>(unix_seconds()) + 3600);
  Command a(node(0, port, same), {.environment = {{"SLURM_JOB_END_TIME", hour}}});
  Command b(node(1, port, same));
  for (Command* command : {&a, &b}) {
    const Outcome end = command->wait();
    INFO(end.err);
    CHECK(end.code == 75);
  }
  CHECK_THAT(read_file(folder.path() / "run/STATUS"), Catch::Contains("(--time-margin)"));
}

TEST_CASE("NodesWithDifferentSettingsAreRefusedWithTheKey") {
  for (const char* other : {"--seed 7", "--seed 3 --mirror", "--seed 3 --set dcgan.latent=50"}) {
    const TemporaryFolder folder;
    CAPTURE(other);
    const Both end = run_both(folder, "--seed 3", other);
    for (const Outcome* one : {&end.first, &end.second}) {
      CHECK(one->code == 4);
      CHECK_THAT(
          one->err,
          Catch::Contains("the ranks were started differently") && Catch::Contains("on node 1"));
    }
  }
}

TEST_CASE("NodesMayHaveTheSameLabelsAtOtherPlaces") {
  const TemporaryFolder folder;
  write_squares(folder.path() / "in", 20, 10);
  const auto labels = [&](const std::string& name, int changed) {
    std::string text = "file,label\n";
    for (int i = 0; i < 20; ++i)
      text += fmt::format("{:03}.png,{}\n", i, (i + (i / 2 == changed ? 1 : 0)) % 2);
    write_file(folder.path() / name, text);
    return fmt::format("--data {} --set data.labels={}",
                       (folder.path() / "in").string(),
                       (folder.path() / name).string());
  };
  const Both same = run_both(folder, labels("a.csv", -1), labels("b.csv", -1));
  INFO(same.first.err);
  CHECK(same.first.code == 0);
  CHECK(same.second.code == 0);
  // Two pictures have changed places: there are as many of each class.
  const TemporaryFolder other;
  const Both differing = run_both(other, labels("a.csv", -1), labels("c.csv", 3));
  for (const Outcome* one : {&differing.first, &differing.second}) {
    CHECK(one->code == 4);
    CHECK_THAT(one->err, Catch::Contains("content of the data"));
  }
}

TEST_CASE("NodesWithOtherPicturesAreRefused") {
  for (const auto& [count, grey] : {std::pair(19, 10), std::pair(20, 40)}) {
    const TemporaryFolder folder;
    CAPTURE(count, grey);
    write_squares(folder.path() / "here", 20, 10);
    write_squares(folder.path() / "there", count, static_cast<uint8_t>(grey));
    const Both end = run_both(folder,
                              "--data " + (folder.path() / "here").string(),
                              "--data " + (folder.path() / "there").string());
    for (const Outcome* one : {&end.first, &end.second}) {
      CHECK(one->code == 4);
      CHECK_THAT(one->err, Catch::Contains("of the data"));
    }
  }
}

TEST_CASE("ANodeThatDoesNotComeIsNamed") {
  const TemporaryFolder folder;
  const ReservedPort port;
  const Outcome end =
      gantrain::gantrain(node(0, port, "--timeout 2s --out " + folder.path().string()));
  CHECK(end.code == 4);
  CHECK_THAT(end.err, Catch::Contains("node 1 (rank 1) did not come within 2s"));
}

TEST_CASE("AStopWhileNodesMeetTakesNoGraceTime") {
  const TemporaryFolder folder;
  const ReservedPort port;
  Command waiting(node(0, port, "--timeout 60s --grace 60s --out " + folder.path().string()));
  REQUIRE(waiting.wait_for("waiting for node 1"));
  waiting.signal(SIGTERM);
  const Outcome end = waiting.wait();
  CHECK(end.code == 75);
  CHECK(end.left.empty());
}

// The nodes restart together from the newest state, whichever of them the rank died on.
TEST_CASE("NodesThatRestartedHaveTheWeightsOfAnUndisturbedRun") {
  const TemporaryFolder folder;
  const std::string more = "--seed 3 --kimg 2 --save-every 0.25 --max-restarts 1";
  const Both calm = run_both(folder, more, "");
  REQUIRE(calm.first.code == 0);
  const std::string undisturbed = model_sha(folder.path() / "run");
  const TemporaryFolder other;
  const fs::path run = other.path() / "run";
  const ReservedPort port;
  Command first(node(0, port, more + " --run-dir " + run.string()));
  Command second(node(1, port, more + " --run-dir " + run.string()));
  REQUIRE(eventually([&] { return fs::exists(run) && !files_like(run, "state-").empty(); }, 60));
  for (const pid_t pid : second.family()) {
    if (pid != second.pid()) kill(pid, SIGKILL);  // its rank
  }
  const Outcome a = first.wait();
  const Outcome b = second.wait();
  INFO(a.err);
  INFO(b.err);
  CHECK(a.code == 0);
  CHECK(b.code == 0);
  for (const Outcome* one : {&a, &b}) {
    CHECK_THAT(one->err,
               Catch::Contains("node 1: rank 1 (") && Catch::Contains("died of signal 9") &&
                   Catch::Contains("starting the ranks again (restart 1 of 1) in 1s"));
  }
  CHECK(model_sha(run) == undisturbed);
}

TEST_CASE("ANodeWhoseLauncherIsKilledEndsTheRunOnTheOther") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  const ReservedPort port;
  const std::string more = "--kimg 500 --max-restarts 3 --save-every 0.5 --run-dir " + run.string();
  Command first(node(0, port, more));
  Command second(node(1, port, more));
  REQUIRE(eventually([&] { return fs::exists(run) && !files_like(run, "state-").empty(); }, 60));
  second.signal(SIGKILL);
  const Outcome end = first.wait();
  INFO(end.err);
  CHECK(end.code == 6);
  CHECK_THAT(end.err,
             Catch::Contains("error   node 1 (") && Catch::Contains("its launcher is gone") &&
                 Catch::Contains("\nnext    "));
  CHECK(end.left.empty());
  CHECK(second.wait().left.empty());
}

TEST_CASE("TwoPodsOfAPyTorchJobTrainTogether") {
  const TemporaryFolder folder;
  const ReservedPort port;
  const auto pod = [&](const char* rank) {
    return CommandOptions{.environment = {{"RANK", rank},
                                          {"WORLD_SIZE", "2"},
                                          {"MASTER_ADDR", "127.0.0.1"},
                                          {"MASTER_PORT", std::to_string(port.number())}},
                          .folder = folder.path()};
  };
  Command first(tiny("--run-dir run"), pod("0"));
  Command second(tiny("--run-dir run"), pod("1"));
  const Outcome a = first.wait();
  INFO(a.err);
  CHECK(a.code == 0);
  CHECK(second.wait().code == 0);
  CHECK_THAT(read_file(folder.path() / "run/log.txt"), Catch::Contains("2 ranks"));
}
