// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "bench/common.h"
#include "bench/requests.h"
#include "util/error.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// Seconds from the start of a command to a line that contains `mark`, and to its end.
struct LaunchTimes {
  double mark = 0;
  double end = 0;
};

LaunchTimes times_of(std::vector<std::string> words, const std::string& mark) {
  const std::string program = words.front();
  words.insert(words.begin(), "exec");
  LaunchTimes times;
  std::string last;
  const double start = monotonic_seconds();
  const int status = run_shell(words, [&](const std::string& line) {
    last = trim(line);
    if (times.mark == 0 && last.find(mark) != std::string::npos)
      times.mark = monotonic_seconds() - start;
  });
  times.end = monotonic_seconds() - start;
  if (status != 0) fail(Exit::kInternal, "{} failed: {}", program, last);
  return times;
}

// A whole run of a few iterations, and in it the first all-reduce.
LaunchTimes run_of(const BenchLaunchRequest& request, int64_t ranks) {
  constexpr int64_t kImages = 32;  // of a batch
  const ScratchFolder folder;
  const std::string batch = std::to_string(ranks * ((kImages + ranks - 1) / ranks));
  std::vector<std::string> words = {request.program, "train", "-v"};
  words.insert(words.end(), request.arguments.begin(), request.arguments.end());
  words.insert(words.end(),
               {"--device=cpu",
                "--nproc=" + std::to_string(ranks),
                "--resolution=16",
                "--batch=" + batch,
                "--kimg=0.128",
                "--metrics=none",
                "--run-dir=" + (folder.path() / "run").string()});
  return times_of(words, "first all-reduce");
}

// A process that loads the trainer library and ends.
double load_library(const std::function<void()>& load) {
  const double start = monotonic_seconds();
  const pid_t child = fork();
  if (child < 0) fail(Exit::kEnvironment, "cannot start a process: {}", errno_text());
  if (child == 0) {
    load();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) fail(Exit::kEnvironment, "the trainer library cannot be loaded");
  return monotonic_seconds() - start;
}

constexpr const char* kPeer = "launch.py";

// Seconds from torchrun's start to its first all-reduce.
double peer_seconds(const Peers& peers, int64_t ranks) {
  const std::string started = fmt::format("{:.6f}", monotonic_seconds());
  return run_peer(peers, {kPeer, {"--started", started}, ranks}).at("seconds");
}

Json world_row(int64_t ranks, const BenchLaunchRequest& request, bool peer) {
  std::vector<double> first, whole, start, load, theirs;
  std::vector<std::function<void()>> turns = {
      [&] {
        const LaunchTimes times = run_of(request, ranks);
        first.push_back(times.mark);
        whole.push_back(times.end);
      },
      [&] {
        start.push_back(times_of({request.program, "--version"}, "").end);
      },
      [&] { load.push_back(load_library(request.load)); }};
  if (peer) turns.emplace_back([&] { theirs.push_back(peer_seconds(request.peers, ranks)); });
  in_turns(request.rounds, turns);
  std::vector<double> floor;
  for (size_t i = 0; i < start.size(); ++i) floor.push_back(start[i] + load[i]);
  Json row = {{"ranks", ranks},
              {"first_all_reduce", spread_of(first)},
              {"whole_run", spread_of(whole)},
              {"process_start", spread_of(start)},
              {"library_load", spread_of(load)},
              {"floor", spread_of(floor)}};
  row["first_all_reduce"]["of_floor"] = ratio_of(quotients(first, floor));
  if (peer) {
    row["peer"] = spread_of(theirs);
    row["peer"]["ours"] = ratio_of(quotients(first, theirs));
  }
  return row;
}

void print_seconds(const std::string& name, const Json& spread, const std::string& remark) {
  fmt::print("  {:<44} {:>8.3f} s {} {}\n", name, median_of(spread), quartiles_of(spread), remark);
}

void print_world(const Json& row) {
  fmt::print("\n{}\n", counted(row.at("ranks").get<int64_t>(), "rank"));
  const Json& first = row.at("first_all_reduce");
  print_seconds(
      "start to the first all-reduce", first, ratio_text(first.at("of_floor")) + " x floor");
  print_seconds("start to the end of a tiny run", row.at("whole_run"), "");
  print_seconds("floor: one start and one load", row.at("floor"), "");
  print_seconds("  a process that prints its version", row.at("process_start"), "");
  print_seconds("  loading the trainer library", row.at("library_load"), "");
  if (row.contains("peer")) {
    print_seconds("torchrun to its first all-reduce",
                  row.at("peer"),
                  "ours: " + ratio_text(row.at("peer").at("ours")) + " of it");
  }
}

}  // namespace

int bench_launch(const BenchLaunchRequest& request) {
  const std::string reason =
      request.peers.python.empty() ? "--python is empty" : why_not(request.peers, kPeer, "2.11");
  Json result = {{"bench", "launch"}, {"load", {load_average()}}, {"worlds", Json::array()}};
  fmt::print("load {:.1f}\n", load_average());
  for (const int64_t count : request.counts) {
    result["worlds"].push_back(world_row(count, request, reason.empty()));
    print_world(result["worlds"].back());
    std::fflush(stdout);
  }
  return finish_bench(result, {request.json, "torchrun", reason});
}

}  // namespace gantrain
