// SPDX-License-Identifier: Apache-2.0
// Two launchers on this machine, as nodes of one run that come and go.
#include <fmt/format.h>
#include <signal.h>

#include <filesystem>
#include <map>
#include <regex>

#include "support/catch.h"
#include "support/reserved_port.h"
#include "support/tiny.h"
#include "util/file.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

Words elastic_node(int number, const ReservedPort& port, const std::string& more) {
  return tiny(
      fmt::format("--nproc 1 --nnodes 1:2 --node-rank {} --master-addr 127.0.0.1 "
                  "--master-port {} --kimg 500 --run-dir run {}",
                  number,
                  port.number(),
                  more));
}

// The changes of the ranks that the log tells of: the iteration, and how many there are then.
std::vector<std::pair<int64_t, std::string>> changes_told_by(const fs::path& run) {
  const std::regex change("ranks   \\d+ -> (\\d+) at iteration (\\d+),");
  const std::string log = text_in(run / "log.txt");
  std::vector<std::pair<int64_t, std::string>> all;
  for (std::sregex_iterator at(log.begin(), log.end(), change), end; at != end; ++at)
    all.emplace_back(std::stoll(at->str(2)), at->str(1));
  return all;
}

// How many ranks the run began with, by the first of its lines "batch".
std::string first_ranks(const fs::path& run) {
  std::smatch told;
  const std::string log = text_in(run / "log.txt");
  const std::regex batch("batch \\d+ = (\\d+) ranks? x ");
  return std::regex_search(log, told, batch) ? told.str(1) : "";
}

// "0:2,17:1"; of several changes at one border the last one counts.
std::string plan_told_by(const fs::path& run) {
  std::map<int64_t, std::string> ranks = {{0, first_ranks(run)}};
  for (const auto& [iteration, count] : changes_told_by(run)) ranks[iteration] = count;
  std::string plan;
  for (const auto& [iteration, count] : ranks)
    plan += fmt::format("{}{}:{}", plan.empty() ? "" : ",", iteration, count);
  return plan;
}

// Until the ranks have changed so many times or more, and then are that many.
bool have_changed(const fs::path& run, size_t times, const std::string& ranks) {
  return eventually(
      [&] {
        const auto all = changes_told_by(run);
        const std::string now = all.empty() ? first_ranks(run) : all.back().second;
        return all.size() >= times && now == ranks;
      },
      60);
}

// A run of two nodes that may come and go, which trains with both.
struct TwoNodes {
  // `first_words` are behind the first node's own.
  explicit TwoNodes(const std::string& first_words = "")
      : first(elastic_node(0, port, first_words), {.folder = folder.path()}),
        second(elastic_node(1, port, ""), {.folder = folder.path()}) {
    REQUIRE(first.wait_for("speed  "));
    REQUIRE(have_changed(run, 0, "2"));  // the second may come late
    REQUIRE(eventually([&] { return has_model(run); }, 60));
    before = changes_told_by(run).size();
  }

  Words join() const {
    return {"join", fmt::format("127.0.0.1:{}", port.number()), "--run-dir", run.string()};
  }

  TemporaryFolder folder;
  fs::path run = folder / "run";
  ReservedPort port;
  Command first, second;
  size_t before = 0;  // changes until all were there
};

pid_t pid_of_rank(const fs::path& run, const char* file, const char* rank) {
  const auto pids = nlohmann::ordered_json::parse(text_in(run / "errors" / file));
  return pids.at(rank).get<pid_t>();
}

// A stopped run has the weights of one that was told its ranks beforehand.
void check_bits_of(const fs::path& run, const TemporaryFolder& folder) {
  const std::string status = read_file(run / "STATUS");
  REQUIRE_THAT(status, Catch::StartsWith("stopped "));
  const double kimg = std::stod(status.substr(std::string("stopped ").size()));
  const std::string plan = plan_told_by(run);
  CAPTURE(plan, status);
  train(
      folder, "planned", fmt::format("--nproc 2 --set launch.rank_plan={} --kimg {}", plan, kimg));
  CHECK(model_sha(run) == model_sha(folder / "planned"));
}

// Stops the run at its first node. Both nodes end as stopped ones, nothing of theirs is left, and
// the weights are those of the plan that the ranks made. Returns what they said.
std::pair<std::string, std::string> stopped(const TwoNodes& nodes, Command& one, Command& other) {
  one.signal(SIGTERM);
  const Outcome a = one.wait(), b = other.wait();
  INFO(a.err);
  INFO(b.err);
  CHECK(a.code == 75);
  CHECK(b.code == 75);
  CHECK(a.left.empty());
  CHECK(b.left.empty());
  check_bits_of(nodes.run, nodes.folder);
  return {a.err, b.err};
}

}  // namespace

TEST_CASE("NodesThatComeAndGoTrainWhatThePlanOfTheirRanksTrains") {
  // What node 0 says of itself, in whichever spelling, is nothing to those who join it.
  TwoNodes nodes("--set launch.node_rank=0 --node_rank=0");
  nodes.second.signal(SIGKILL);
  REQUIRE(have_changed(nodes.run, nodes.before + 1, "1"));
  Command third(nodes.join());  // another machine has no command of its own
  REQUIRE(have_changed(nodes.run, nodes.before + 2, "2"));
  // Rank 0 is lost: the other node's rank writes the files now.
  REQUIRE(::kill(pid_of_rank(nodes.run, "pids.json", "0"), SIGKILL) == 0);
  REQUIRE(have_changed(nodes.run, nodes.before + 3, "2"));
  const auto [first, joined] = stopped(nodes, nodes.first, third);
  CHECK_THAT(first,
             Catch::Contains("its launcher is gone") && Catch::Contains("has come") &&
                 Catch::Contains("died of signal 9 (SIGKILL)"));
  CHECK_THAT(joined, Catch::Contains("this is node 1 of the run"));
}

TEST_CASE("ARunOutlivesTheLaunchersThatLeadIt") {
  TwoNodes nodes;
  nodes.first.signal(SIGKILL);
  REQUIRE(have_changed(nodes.run, nodes.before + 1, "1"));
  // Who joins need not know that another node leads now, and becomes node 0.
  Command third(nodes.join());
  REQUIRE(have_changed(nodes.run, nodes.before + 2, "2"));
  CHECK(read_file(nodes.run / "STATUS") == "running\n");
  nodes.second.signal(SIGKILL);
  REQUIRE(have_changed(nodes.run, nodes.before + 3, "1"));
  Command fourth(elastic_node(1, nodes.port, ""), {.folder = nodes.folder.path()});
  REQUIRE(have_changed(nodes.run, nodes.before + 4, "2"));
  CHECK(read_file(nodes.run / "STATUS") == "running\n");
  const auto [joined, started] = stopped(nodes, third, fourth);
  CHECK_THAT(joined,
             Catch::Contains("this is node 0 of the run") &&
                 Catch::Contains("its launcher is gone") && Catch::Contains("leads the run now"));
}

TEST_CASE("AtAStopTheRunIsSavedThoughTheLauncherThatLedIsLost") {
  TwoNodes nodes;
  for (Command* node : {&nodes.second, &nodes.first}) node->signal(SIGTERM);
  nodes.first.signal(SIGKILL);
  const Outcome end = nodes.second.wait();
  INFO(end.err);
  CHECK(end.code == 75);
  CHECK_THAT(read_file(nodes.run / "STATUS"), Catch::StartsWith("stopped "));
}

TEST_CASE("ANodeThatWasStartedDifferentlyDoesNotJoin") {
  const TemporaryFolder folder;
  const ReservedPort port;
  const CommandOptions here{.folder = folder.path()};
  Command first(elastic_node(0, port, "--seed 3"), here);
  REQUIRE(first.wait_for("speed  "));
  Command second(elastic_node(1, port, "--seed 4"), here);
  const Outcome refused = second.wait();
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err,
             Catch::Contains("the ranks were started differently: train.seed is 4 on node 1"));
  first.signal(SIGTERM);
  const Outcome end = first.wait();
  INFO(end.err);
  CHECK(end.code == 75);
  CHECK_THAT(end.err, Catch::Contains("; the run goes on with 1 rank on 1 node"));
}

TEST_CASE("RanksOfAPlanOnTwoNodesAreThoseOfOne") {
  const TemporaryFolder folder;
  const ReservedPort port;
  const CommandOptions here{.folder = folder.path()};
  const std::string plan = "--set launch.rank_plan=0:1,4:2,7:1,9:2 --kimg 0.176";
  const auto of = [&](int number) {
    return tiny(
        fmt::format("--nproc 1 --nnodes 2 --node-rank {} --master-addr 127.0.0.1 --master-port {} "
                    "--run-dir run {}",
                    number,
                    port.number(),
                    plan));
  };
  Command first(of(0), here);
  Command second(of(1), here);
  const Outcome a = first.wait(), b = second.wait();
  INFO(a.err);
  INFO(b.err);
  REQUIRE(a.code == 0);
  CHECK(b.code == 0);
  train(folder, "one", "--nproc 2 " + plan);
  CHECK(model_sha(folder / "run") == model_sha(folder / "one"));
}

TEST_CASE("WhatIsNoRangeOfNodesIsRefused") {
  const TemporaryFolder folder;
  const std::string same = "--preset dcgan-tiny --device cpu --master-addr h --master-port 1 ";
  check_refusals(
      folder,
      {{same + "--nnodes 3:2", 2, "launch.nnodes_min = 3, but at most 2 nodes (--nnodes)"},
       {same + "--nnodes a:2", 2, "--nnodes a:2: MIN:MAX are two numbers"},
       {same + "--nnodes 0:2", 2, "launch.nnodes_min"},
       {same + "--nnodes 1:33 --nproc 8", 2, "an elastic run has at most 256 ranks"},
       {"join somewhere", 2, "HOST:PORT"},
       {"join 127.0.0.1:1", 2, "--run-dir names the run's folder, where the secret"},
       {"join 127.0.0.1:1 --run-dir run --timeout 1s",
        4,
        "join 127.0.0.1:1: no answer within 1s"}});
  Command worker(words_of("--preset dcgan-tiny --device cpu --set launch.nnodes_min=1"),
                 {.environment = {{"RANK", "0"},
                                  {"WORLD_SIZE", "2"},
                                  {"LOCAL_RANK", "0"},
                                  {"MASTER_ADDR", "127.0.0.1"},
                                  {"MASTER_PORT", "1"}},
                  .folder = folder.path()});
  const Outcome end = worker.wait();
  CHECK(end.code == 2);
  CHECK_THAT(end.err, Catch::Contains("here torchrun starts the ranks"));
  const Outcome planned = succeed(folder, same + "--nnodes 1:2 --nproc 1 --dry-run");
  CHECK_THAT(planned.out, Catch::Contains("2 ranks on 2 nodes, of which 1 must be there"));
}

}  // namespace gantrain
