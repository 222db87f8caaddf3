// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "bench_numbers.h"
#include "bench_peer.h"
#include "bench_scratch.h"
#include "bench_verbs.h"
#include "cli.h"
#include "trainer_library.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

struct Request {
  std::vector<int64_t> ranks;
  int64_t rounds = 5;
  Peer peer;
  bool json = false;
};

// Seconds from the start of a command to a line that contains `mark`, and to its end.
struct Times {
  double mark = 0;
  double end = 0;
};

Times times_of(const std::vector<std::string>& words, const std::string& mark) {
  std::string command = "exec";
  for (const std::string& word : words) command += " " + shell_quote(word);
  Times times;
  const double start = monotonic_seconds();
  FILE* pipe = popen((command + " 2>&1").c_str(), "re");
  if (pipe == nullptr) fail(Exit::kEnvironment, "cannot start a process: {}", errno_text());
  char line[4096];
  std::string last;
  while (fgets(line, sizeof(line), pipe) != nullptr) {
    last = trim(line);
    if (times.mark == 0 && last.find(mark) != std::string::npos)
      times.mark = monotonic_seconds() - start;
  }
  const int status = pclose(pipe);
  times.end = monotonic_seconds() - start;
  if (status != 0) fail(Exit::kInternal, "{} failed: {}", words.front(), last);
  return times;
}

std::string program() { return (executable_folder() / "gantrain").string(); }

// A whole run of a few iterations, and in it the first all-reduce.
Times run_of(int64_t ranks) {
  constexpr int64_t kImages = 32;  // of a batch
  const ScratchFolder folder;
  const std::string batch = std::to_string(ranks * ((kImages + ranks - 1) / ranks));
  return times_of({program(),
                   "train",
                   "-v",
                   "--preset=dcgan-tiny",
                   "--device=cpu",
                   "--nproc=" + std::to_string(ranks),
                   "--resolution=16",
                   "--batch=" + batch,
                   "--kimg=0.128",
                   "--metrics=none",
                   "--set=dcgan.channels=16",
                   "--set=dcgan.d_channels=8",
                   "--run-dir=" + (folder.path() / "run").string()},
                  "first all-reduce");
}

// A process that loads the trainer library and ends.
double load_library() {
  const double start = monotonic_seconds();
  const pid_t child = fork();
  if (child < 0) fail(Exit::kEnvironment, "cannot start a process: {}", errno_text());
  if (child == 0) {
    trainer_function(kVerbMain, /*cuda=*/false);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) fail(Exit::kEnvironment, "the trainer library cannot be loaded");
  return monotonic_seconds() - start;
}

// Seconds from torchrun's start to its first all-reduce.
double peer_seconds(const Peer& peer, int64_t ranks) {
  const std::string started = fmt::format("{:.6f}", monotonic_seconds());
  return run_under_torchrun(peer, ranks, {"--started", started}).at("seconds");
}

Json world_row(int64_t ranks, const Request& request, bool peer) {
  std::vector<double> first, whole, start, load, theirs;
  std::vector<std::function<void()>> turns = {
      [&] {
        const Times times = run_of(ranks);
        first.push_back(times.mark);
        whole.push_back(times.end);
      },
      [&] {
        start.push_back(times_of({program(), "--version"}, "").end);
      },
      [&] { load.push_back(load_library()); }};
  if (peer) turns.emplace_back([&] { theirs.push_back(peer_seconds(request.peer, ranks)); });
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

void print_line(const std::string& name, const Json& spread, const std::string& remark) {
  fmt::print("  {:<44} {:>8.3f} s {:>8.3f} .. {:<7.3f} {}\n",
             name,
             spread.at("median").get<double>(),
             spread.at("quartiles")[0].get<double>(),
             spread.at("quartiles")[1].get<double>(),
             remark);
}

void print_world(const Json& row) {
  fmt::print("\n{} ranks\n", row.at("ranks").get<int64_t>());
  const Json& first = row.at("first_all_reduce");
  print_line("start to the first all-reduce", first, ratio_text(first.at("of_floor")) + " x floor");
  print_line("start to the end of a tiny run", row.at("whole_run"), "");
  print_line("floor: one start and one load", row.at("floor"), "");
  print_line("  a process that prints its version", row.at("process_start"), "");
  print_line("  loading the trainer library", row.at("library_load"), "");
  if (row.contains("peer")) {
    print_line("torchrun to its first all-reduce",
               row.at("peer"),
               "ours: " + ratio_text(row.at("peer").at("ours")) + " of it");
  }
}

std::vector<int64_t> rank_counts(const std::string& text) {
  std::vector<int64_t> all;
  for (const std::string& word : split(text, ',')) {
    const auto number = parse_int(word);
    if (!number || *number < 1 || *number > 256)
      fail(Exit::kUsage, "--ranks {}: numbers from 1 to 256 with commas between", text);
    all.push_back(*number);
  }
  return all;
}

}  // namespace

int bench_launch_verb(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Times from the start of the command to the first all-reduce of its ranks, beside one start "
      "of the program and one load of its library, and beside torchrun.",
      "gantrain bench launch");
  std::string ranks = "2,8", python = default_python();
  Request request;
  app.add_option("--ranks", ranks, "numbers of ranks")->take_last();
  app.add_option("--rounds", request.rounds, "measurements of each, in turns")
      ->check(CLI::Range(1, 10000));
  app.add_option(
         "--python", python, "that has torch 2.11, for torchrun (GANTRAIN_PYTHON); \"\": none")
      ->take_last();
  app.add_flag("--json", request.json, "one JSON line, last on standard output");
  if (!parse(app, arguments)) return 0;
  request.ranks = rank_counts(ranks);
  request.peer = {python, peer_scripts() + "/launch.py", {}};
  const std::string reason = python.empty() ? "--python is empty" : why_not(request.peer, "2.11");
  Json result = {{"bench", "launch"}, {"load", {load_average()}}, {"worlds", Json::array()}};
  fmt::print("load {:.1f}\n", load_average());
  for (const int64_t count : request.ranks) {
    result["worlds"].push_back(world_row(count, request, reason.empty()));
    print_world(result["worlds"].back());
    std::fflush(stdout);
  }
  if (!reason.empty()) {
    fmt::print("\nnot compared with torchrun: {}\n", reason);
    result["peer_skipped"] = reason;
  }
  result["load"].push_back(load_average());
  if (request.json) fmt::print("{}\n", result.dump());
  return 0;
}

}  // namespace gantrain
