// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "bench/common.h"
#include "bench/requests.h"
#include "launch/local/processes.h"
#include "util/error.h"
#include "util/file.h"
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

// A shell script as every rank of a launcher: ours, or torchrun.
struct ScriptLauncher {
  std::string name;
  std::vector<std::string> words;  // before the script
  std::string cause;               // what its report has before the rank that failed first
};

ScriptLauncher ours(const BenchLaunchRequest& request, int64_t ranks) {
  return {"gantrain launch",
          {request.program, "launch", "-q", "--nproc", std::to_string(ranks), "--", "sh", "-c"},
          "error   rank "};
}

ScriptLauncher torchrun(const BenchLaunchRequest& request, int64_t ranks) {
  return {"torchrun",
          {request.peers.python,
           "-m",
           "torch.distributed.run",
           "--no-python",
           "--nproc_per_node",
           std::to_string(ranks),
           "sh",
           "-c"},
          "Root Cause"};
}

constexpr const char* kScriptMark = "GANTRAIN_BENCH_LAUNCH";  // in the environment of all ranks
constexpr double kOrphanSeconds = 5;                          // in which they may end
constexpr double kScriptSeconds = 120;                        // in which all ranks have to be there

// A launcher in a process of its own, whose ranks add a line each to the file $F once they run.
class RunningScript {
 public:
  RunningScript(const ScriptLauncher& launcher, const std::string& script, int64_t ranks)
      : mark_(fmt::format("{}={}-{}", kScriptMark, ::getpid(), monotonic_ns())) {
    const std::filesystem::path file = folder_.path() / "ranks";
    std::vector<std::string> words = launcher.words;
    words.push_back("F=" + file.string() + "\n" + script);
    pid_ = ::fork();
    if (pid_ < 0) fail(Exit::kEnvironment, "cannot start a process: {}", errno_text());
    if (pid_ == 0) become(words);
    const double end = monotonic_seconds() + kScriptSeconds;
    while (std::ranges::count(content_of(file, kMostOfText).value_or(""), '\n') < ranks) {
      if (monotonic_seconds() > end)
        fail(Exit::kEnvironment, "{}: its {} do not come", launcher.name, counted(ranks, "rank"));
      ::usleep(2000);
    }
  }
  ~RunningScript() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    for (const pid_t left : marked()) ::kill(left, SIGKILL);
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  }
  RunningScript(const RunningScript&) = delete;
  RunningScript& operator=(const RunningScript&) = delete;

  // MiB that the launcher's process has, with its share of what others have too.
  double own_mib() const {
    const std::string all = proc_file(std::to_string(pid_), "smaps_rollup");
    const size_t at = all.find("\nPss:");
    return at == std::string::npos ? 0 : std::strtod(all.c_str() + at + 5, nullptr) / 1024;
  }

  // How many processes are left some seconds after the launcher was killed.
  int64_t orphans() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
    const double end = monotonic_seconds() + kOrphanSeconds;
    while (!marked().empty() && monotonic_seconds() < end) ::usleep(20'000);
    return static_cast<int64_t>(marked().size());
  }

 private:
  [[noreturn]] void become(std::vector<std::string>& words) const {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const size_t equals = mark_.find('=');
    ::setenv(kScriptMark, mark_.c_str() + equals + 1, 1);
    if (std::freopen("/dev/null", "w", stdout) != nullptr &&
        std::freopen("/dev/null", "w", stderr) != nullptr)
      ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }

  // The living processes below the launcher, and itself.
  std::vector<pid_t> marked() const {
    std::vector<pid_t> found;
    for (const std::string& pid : all_processes()) {
      const std::string variables = '\0' + proc_file(pid, "environ");
      if (variables.find('\0' + mark_ + '\0') != std::string::npos)
        found.push_back(static_cast<pid_t>(parse_int(pid).value_or(-1)));
    }
    return found;
  }

  const ScratchFolder folder_;
  const std::string mark_;
  pid_t pid_ = -1;
};

// Whether the launcher names the rank that fails first, when the others fail because of it.
bool names_first_cause(const ScriptLauncher& launcher, int64_t ranks, int64_t culprit) {
  const ScratchFolder folder;
  std::vector<std::string> words = launcher.words;
  words.insert(words.begin(), "exec");
  words.push_back(
      fmt::format("cd '{}'; : >$RANK; while [ $(ls | wc -l) -lt {} ]; do sleep 0.02; done\n"
                  "if [ $RANK = {} ]; then mkdir dead; echo 'ValueError: odd' >&2; exit 9; fi\n"
                  "while [ ! -e dead ]; do sleep 0.002; done\n"
                  "echo 'RuntimeError: Connection closed by peer' >&2; exit 1",
                  folder.path().string(),
                  ranks,
                  culprit));
  bool told = false;
  int64_t named = -1;
  run_shell(words, [&](const std::string& line) {
    const size_t at = line.find(launcher.cause);
    told = told || at != std::string::npos;
    if (!told || named >= 0) return;
    const size_t rank = line.find("rank", at == std::string::npos ? 0 : at);
    const size_t digit = rank == std::string::npos ? rank : line.find_first_of("0123456789", rank);
    if (digit != std::string::npos) named = std::strtol(line.c_str() + digit, nullptr, 10);
  });
  return named == culprit;
}

// A shell's rank with two children, one of them in a session of its own.
constexpr const char* kFamily = "sleep 600 & setsid sleep 600 & echo >>$F; exec sleep 600";

Json program_row(const BenchLaunchRequest& request, int64_t ranks, const ScriptLauncher& launcher) {
  std::vector<double> seconds;
  std::vector<std::string> nothing = launcher.words;
  nothing.emplace_back(":");
  for (int64_t i = 0; i < request.rounds; ++i) seconds.push_back(times_of(nothing, "").end);
  RunningScript script(launcher, kFamily, ranks);
  Json row = {{"launcher", launcher.name}, {"seconds", spread_of(seconds)}};
  row["mib"] = script.own_mib();
  row["orphans"] = script.orphans();
  int64_t named = 0;
  for (int64_t i = 0; i < request.failures; ++i)
    named += names_first_cause(launcher, ranks, (5 * i + 3) % ranks) ? 1 : 0;
  row["named"] = named;
  return row;
}

void print_program(const Json& row, int64_t ranks, int64_t failures) {
  fmt::print("  {}\n", row.at("launcher").get<std::string>());
  print_seconds("start and end of ranks that do nothing", row.at("seconds"), "");
  fmt::print(
      "  {:<44} {:>8.1f} MiB\n", "memory of the launcher (PSS)", row.at("mib").get<double>());
  fmt::print("  {:<44} {:>8} of {}\n",
             "processes left after kill -9 of it",
             row.at("orphans").get<int64_t>(),
             3 * ranks);
  fmt::print(
      "  {:<44} {:>8} of {}\n", "first causes named", row.at("named").get<int64_t>(), failures);
}

Json program_rows(const BenchLaunchRequest& request, int64_t ranks, bool peer) {
  Json rows = {{"ranks", ranks}, {"failures", request.failures}, {"launchers", Json::array()}};
  fmt::print("\n{} of a shell script\n", counted(ranks, "rank"));
  std::vector<ScriptLauncher> launchers = {ours(request, ranks)};
  if (peer) launchers.push_back(torchrun(request, ranks));
  for (const ScriptLauncher& launcher : launchers) {
    rows["launchers"].push_back(program_row(request, ranks, launcher));
    print_program(rows["launchers"].back(), ranks, request.failures);
    std::fflush(stdout);
  }
  if (!peer) return rows;
  const double own = median_of(rows["launchers"][0].at("seconds"));
  const double theirs = median_of(rows["launchers"][1].at("seconds"));
  rows["ours"] = own / theirs;
  fmt::print("  ours starts and ends them in {:.4f} of torchrun's time\n", own / theirs);
  return rows;
}

}  // namespace

int bench_launch(const BenchLaunchRequest& request) {
  const std::string reason =
      request.peers.python.empty() ? "--python is empty" : why_not(request.peers, kPeer, "2.11");
  Json result = {{"bench", "launch"}, {"load", {load_average()}}, {"worlds", Json::array()}};
  fmt::print("load {:.1f}\n", load_average());
  for (const int64_t count : request.counts) {
    if (request.programs) {
      result["worlds"].push_back(program_rows(request, count, reason.empty()));
      continue;
    }
    result["worlds"].push_back(world_row(count, request, reason.empty()));
    print_world(result["worlds"].back());
    std::fflush(stdout);
  }
  return finish_bench(result, {request.json, "torchrun", reason});
}

}  // namespace gantrain
