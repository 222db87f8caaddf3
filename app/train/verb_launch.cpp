// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <system_error>

#include "bench/common.h"
#include "command/flags.h"
#include "command/options.h"
#include "launch/local/supervise.h"
#include "launch/nodes/node_link.h"
#include "launch/where/devices.h"
#include "launch/where/network.h"
#include "main/verbs.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr const char* kLaunchAbout =
    "Starts a program of your own, a training script in Python or any other, as the ranks of this "
    "node: with torchrun's environment, and under the supervision that a training has.";

struct LaunchFlags {
  std::vector<std::string> words;  // the program and its arguments
  bool module = false;
  bool no_python = false;
  bool pass_local_rank = false;
  std::string nproc;
  std::string nnodes = "1";
  std::string rdzv_endpoint;
  std::string timeout = "10m";
  std::string grace = "30s";
  LaunchOptions launch;
  Program program;
  bool run_is_named = false;  // by --run-id
  std::string log_dir;
};

template <class Field>
void fields(LaunchFlags& o, Field&& field) {
  LaunchOptions& launch = o.launch;
  field("words", o.words, said("PROGRAM"), "FILE.py, which python3 runs, or a program; arguments");
  field("module", o.module, said("-m,--module"), "PROGRAM is a Python module");
  field("no_python", o.no_python, "run FILE.py as a program, not by python3");
  field("pass_local_rank",
        o.pass_local_rank,
        "give the script --local_rank=N too, or --local-rank=N if it asks for that alone");
  field("nproc",
        o.nproc,
        said("--nproc,--nproc-per-node"),
        "ranks of this node: a number, gpu, cpu, or auto, which is gpu where GPUs are, else cpu "
        "(the visible GPUs, else 1)");
  field("nnodes", o.nnodes, "machines that take part (1)");
  field("node_rank", launch.node_rank, between(0, 1e6, "0 or more"), "this machine's number (0)");
  field("master_addr", launch.master_addr, "machine of node 0, with several nodes");
  field("master_port", launch.master_port, between(0, 65535, "0 to 65535"), "a port of it (29500)");
  field("rdzv_endpoint", o.rdzv_endpoint, "HOST:PORT: --master-addr and --master-port in one");
  field("run_id",
        o.program.run_id,
        said("--run-id,--rdzv-id"),
        "name of the run (time and a random number)");
  field("role", o.program.role, "ROLE_NAME (default)");
  field("max_restarts",
        launch.max_restarts,
        between(0, 1e6, "0 or more"),
        "restarts of all ranks after one has failed (0)");
  field("grace", o.grace, "time to end after a stop signal was passed on (30s)");
  field("timeout", o.timeout, "time to wait for the other nodes (10m)");
  field("threads",
        launch.threads,
        said("--threads"),
        between(1, 1e6, "1 or more"),
        "OMP_NUM_THREADS (with several ranks and without the variable: cores / ranks)");
  field("log_dir",
        o.log_dir,
        "each rank's output to DIR/RUN/ATTEMPT/rank<k>.out and .err, and not to the screen");
  field("tee", o.program.tee, "with --log-dir: to the screen as well");
}

constexpr const char* kLaunchFooter =
    "  gantrain launch --nproc 8 train.py --lr 1e-4\n"
    "  gantrain launch --nproc 2 --log-dir logs --tee -- -m package.train\n"
    "Arguments after the program or -- belong to the program. torchrun's other flags are accepted.";

bool is_python(const LaunchFlags& flags) {
  return flags.module || (!flags.no_python && ends_with(flags.words.front(), ".py"));
}

// What torchrun says of --tee in numbers (3: both streams) is the switch here.
bool is_stream_choice(const std::string& word) {
  return !word.empty() && word.find_first_not_of("0123456789:,") == std::string::npos;
}

// Whether the flag's value is the word behind it.
bool takes_next(const std::string& flag, const std::vector<FlagDescription>& own) {
  std::string name = flag;
  std::replace(name.begin() + 2, name.end(), '_', '-');
  for (const FlagDescription& one : own) {
    if (contains(one.names, name)) return !one.value.empty();
  }
  for (const Habit& habit : habits_of_verb("launch")) {
    const std::vector<std::string> names = split(habit.names, ',');
    if (contains(names, name)) return habit.has_value;
  }
  return false;
}

// Takes this verb's own words from the front of `arguments`: up to "--", or to the first word that
// is neither a flag nor a flag's value.
std::vector<std::string> take_own(std::vector<std::string>& arguments,
                                  const std::vector<FlagDescription>& flags) {
  std::vector<std::string> own;
  size_t at = 0;
  for (; at < arguments.size(); ++at) {
    const std::string& word = arguments[at];
    if (word == "--" || !starts_with(word, "-") || word.size() < 2) break;
    const bool more = at + 1 < arguments.size();
    if (word == "--tee" || word == "-t") {
      own.emplace_back("--tee");
      if (more && is_stream_choice(arguments[at + 1])) ++at;
      continue;
    }
    own.push_back(word);
    if (more && word.find('=') == std::string::npos && takes_next(word, flags))
      own.push_back(arguments[++at]);
  }
  const size_t dashes = at < arguments.size() && arguments[at] == "--" ? 1 : 0;
  arguments.erase(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(at + dashes));
  return own;
}

double seconds_of(const std::string& flag, const std::string& text) {
  const auto seconds = parse_duration(text);
  if (!seconds) fail(Exit::kUsage, "{} {}: a duration is expected: 90s, 5m", flag, text);
  return *seconds;
}

std::optional<int64_t> ranks_of(const std::string& text, int64_t gpus) {
  if (text.empty()) return std::nullopt;
  if (text == "gpu" && gpus == 0)
    fail(Exit::kEnvironment, "--nproc gpu: no GPU is visible; gantrain doctor says why");
  if (text == "gpu" || (text == "auto" && gpus > 0)) return gpus;
  if (text == "cpu" || text == "auto") return usable_cores();
  const auto ranks = parse_int(text);
  if (!ranks || *ranks < 1 || *ranks > 1'000'000)
    fail(Exit::kUsage, "--nproc {}: allowed: 1 or more, auto, gpu, cpu", text);
  return ranks;
}

int64_t nodes_of(const std::string& text) {
  const std::vector<std::string> ends = split(text, ':');
  const auto least = parse_int(ends.front()), most = parse_int(ends.back());
  if (!least || !most || ends.size() > 2 || *least < 1)
    fail(Exit::kUsage, "--nnodes {}: allowed: 1 or more", text);
  if (*least != *most) {
    fail(Exit::kUsage,
         "--nnodes {}: a program cannot be told that nodes come and go, so as many take part from "
         "start to end: give one number",
         text);
  }
  return *least;
}

// Where the nodes meet, with torchrun's defaults.
void decide_meeting(LaunchFlags& flags) {
  LaunchOptions& launch = flags.launch;
  if (launch.nnodes == 1) return;
  if (!flags.rdzv_endpoint.empty()) {
    const size_t colon = flags.rdzv_endpoint.rfind(':');
    launch.master_addr = flags.rdzv_endpoint.substr(0, colon);
    if (colon != std::string::npos)
      launch.master_port =
          parse_integer("--rdzv-endpoint",
                        flags.rdzv_endpoint.substr(colon + 1),
                        between(1, 65535, "HOST:PORT with a port from 1 to 65535"));
  }
  if (!launch.master_addr.empty() && launch.master_port == 0) launch.master_port = 29500;
}

// --local_rank= as old scripts and torch.distributed.launch before PyTorch 2 have it, unless the
// script has the spelling of PyTorch 2 alone.
std::string local_rank_flag(const std::string& script) {
  const std::string text = content_of(script, kMostOfJson).value_or("");
  const bool hyphen = text.find("--local-rank") != std::string::npos;
  return hyphen && text.find("--local_rank") == std::string::npos ? "--local-rank="
                                                                  : "--local_rank=";
}

// The words that each rank executes.
void decide_words(LaunchFlags& flags) {
  std::vector<std::string>& words = flags.words;
  if (!words.empty() && words.front() == "-m") {
    words.erase(words.begin());
    flags.module = true;
  }
  if (words.empty())
    fail(Exit::kUsage, "what is to be started? {} launch --nproc 2 train.py", program());
  const std::string first = words.front();
  std::error_code error;
  const bool python = is_python(flags);
  if (python && !flags.module && !std::filesystem::is_regular_file(first, error))
    fail(Exit::kInput, "{}: there is no such file", first);
  if (python) {
    const std::string own = environment_variable("PYTHON_EXEC");
    std::vector<std::string> before = {own.empty() ? "python3" : own, "-u"};
    if (flags.module) before.emplace_back("-m");
    words.insert(words.begin(), before.begin(), before.end());
  }
  const std::string& run = words.front();
  const bool is_path = run.find('/') != std::string::npos;
  if (is_path ? ::access(run.c_str(), X_OK) != 0 : find_program(run).empty()) {
    fail(python ? Exit::kEnvironment : Exit::kInput,
         "{}: {}",
         run,
         is_path ? "cannot be executed; a script for Python ends in .py" : "not found on PATH");
  }
  Program& program = flags.program;
  if (flags.pass_local_rank) {
    // Behind the script, also where the user has named the interpreter.
    const auto script =
        std::ranges::find_if(words, [](const std::string& word) { return ends_with(word, ".py"); });
    const bool by_hand = !python && script != words.end();
    const auto here = (by_hand ? script : std::ranges::find(words, first)) + 1;
    program.local_rank_at = static_cast<size_t>(here - words.begin());
    const std::string file = by_hand ? *script : python && !flags.module ? first : "";
    words.insert(here, local_rank_flag(file));
  }
  program.words = words;
}

std::string new_run_id() {
  const std::string time = timestamp();  // "2026-01-12 09:14:31"
  std::string id;
  for (const char c : time) {
    if (c != ':' && c != '-') id += c == ' ' ? '-' : c;
  }
  return id + "-" + random_hex(2);
}

void say_start(const LaunchFlags& flags, const World& world) {
  const RankInfo& ranks = world.ranks;
  if (ranks.local_world > 1 && !flags.launch.threads &&
      environment_variable("OMP_NUM_THREADS").empty()) {
    info("threads OMP_NUM_THREADS={} for each of {} here; --threads or the variable sets it",
         threads_per_rank(flags.launch, current_environment(), ranks.local_world),
         counted(ranks.local_world, "rank"));
  }
  if (flags.log_dir.empty()) return;
  // The run has the name that node 0 gives it, which is not known here yet.
  const bool named = world.ranks.node_rank == 0 || flags.run_is_named;
  info("logs    {}/{}/0/rank<k>.out and .err{}",
       flags.log_dir,
       named ? flags.program.run_id : "RUN",
       named ? "" : ", where RUN is what node 0 says");
}

// Throws UserError(kDisk) if output of the ranks was lost because a disk is full.
void check_all_written() {
  flush_standard_error(kLastWords);
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    const int failure = write_failure(fd);
    if (failure == 0) continue;
    fail(Exit::kDisk,
         "standard {}: {}; text was lost",
         fd == STDOUT_FILENO ? "output" : "error",
         std::generic_category().message(failure));
  }
}

int supervise(LaunchFlags& flags, const World& world) {
  const ScratchFolder scratch;  // for error files
  flags.program.scratch = scratch.path();
  say_start(flags, world);
  const RecordEnd record = [&](const AttemptEnd& end) {
    std::error_code none;
    if (end.died) std::filesystem::remove_all(scratch.path(), none);
  };
  const ResumeHint nothing = [](const std::string&) { return std::string(); };
  const WorldEnd end = launch({.world = world,
                               .options = flags.launch,
                               .request_json = "",
                               .load = nullptr,
                               .resume_hint = nothing,
                               .record = record,
                               .program = &flags.program});
  if (end.code != 0) return end.code;
  check_all_written();
  if (!end.unwritten.empty())
    fail(Exit::kDisk, "{}; later text is not in that file", end.unwritten);
  return end.code;
}

// A task of srun, mpirun or torchrun is a rank itself, under that launcher's supervision.
[[noreturn]] void become_rank(const LaunchFlags& flags, const World& world) {
  if (!flags.log_dir.empty())
    fail(Exit::kUsage, "--log-dir: each task is a rank here; its launcher says where output goes");
  if (const auto note = no_restarts_text(world, flags.launch.max_restarts); !note.empty())
    warn("{}", note);
  RankContext context;
  context.rendezvous = {world.ranks, {reachable_master(world), world.master.port}};
  context.threads = threads_per_rank(flags.launch, current_environment(), world.ranks.local_world);
  run_program(flags.program, context, flags.launch.threads.has_value());
}

int run_launch(std::vector<std::string> arguments) {
  LaunchFlags flags;
  Options options(kLaunchAbout, "gantrain launch");
  options.add(flags);
  options.app().footer(kLaunchFooter);
  std::vector<std::string> own = take_own(arguments, options.describe());
  take_color(own);
  if (!options.parse(in_own_words("launch", own, options))) return 0;
  flags.words = arguments;
  decide_words(flags);
  LaunchOptions& launch = flags.launch;
  const int64_t gpus = visible_gpus(current_environment(), look_at_driver()).count;
  launch.nproc = ranks_of(flags.nproc, gpus);
  launch.nnodes = nodes_of(flags.nnodes);
  decide_meeting(flags);
  launch.grace.seconds = seconds_of("--grace", flags.grace);
  launch.patience.meeting = seconds_of("--timeout", flags.timeout);
  launch.hang_timeout.seconds = 0;  // programs give no signs of life
  Program& program = flags.program;
  program.log_dir = flags.log_dir;
  program.max_restarts = launch.max_restarts;
  flags.run_is_named = !program.run_id.empty();
  if (!flags.run_is_named) program.run_id = new_run_id();
  if (!is_run_id(program.run_id))
    fail(Exit::kUsage, "--run-id {}: a name without / is expected", program.run_id);
  const bool placed = launch.nproc || options.given("--nnodes") || options.given("--node-rank") ||
                      !launch.master_addr.empty() || launch.master_port != 0;
  const World world = detect_world(launch, placed, current_environment(), gpus);
  const bool numbered = world.source != "local" || options.given("--node-rank");
  if (launch.nnodes > 1 && !flags.rdzv_endpoint.empty() && !numbered) {
    fail(Exit::kUsage,
         "--rdzv-endpoint {}: nodes are numbered here: give each its --node-rank, 0 on that host",
         flags.rdzv_endpoint);
  }
  if (world.least_nodes) nodes_of(environment_variable("PET_NNODES"));
  if (world.role == World::Role::kWorker) become_rank(flags, world);
  if (gpus > 0 && world.ranks.local_world > gpus)
    warn("{} here, but {} to see", counted(world.ranks.local_world, "rank"), counted(gpus, "GPU"));
  return supervise(flags, world);
}

struct JoinRequest {
  std::string where;
  std::string run_dir;
  std::string timeout = "60s";
};

template <class Field>
void fields(JoinRequest& o, Field&& field) {
  field("where", o.where, said("HOST:PORT"), "--master-addr and --master-port of the run");
  field(
      "run_dir",
      o.run_dir,
      "its run folder, where the secret of its nodes is, and which of them leads; not needed with "
      "GANTRAIN_JOB_SECRET while node 0 does");
  field("timeout", o.timeout, Said{.show_default = true}, "how long the run may take to answer");
}

int run_join(JoinRequest& request, Options&) {
  const size_t colon = request.where.rfind(':');
  const auto port =
      colon == std::string::npos ? std::nullopt : parse_int(request.where.substr(colon + 1));
  if (!port || *port < 1 || *port > 65535 || colon == 0) {
    fail(Exit::kUsage,
         "join {}: HOST:PORT are --master-addr and --master-port of the run that this node is to "
         "take part in",
         request.where);
  }
  const std::string host = without_brackets(request.where.substr(0, colon));
  const auto timeout = parse_duration(request.timeout);
  if (!timeout) fail(Exit::kUsage, "--timeout {}: a time such as 30s or 5m", request.timeout);
  const std::string secret = job_secret(current_environment());
  if (secret.empty() && request.run_dir.empty()) {
    fail(Exit::kUsage,
         "join {}: --run-dir names the run's folder, where the secret of its nodes is, or "
         "GANTRAIN_JOB_SECRET has it; without a secret this node would run whatever it is told at "
         "that address",
         request.where);
  }
  Endpoint at{host, *port};
  // Another node may lead the run now.
  const auto leader = request.run_dir.empty() ? std::nullopt : find_leader(request.run_dir, secret);
  if (leader) at = {leader->host, leader->port};
  const NodeMessage told = ask_to_join(at, secret, request.run_dir, *timeout);
  const Json text = parse_foreign(told.text);
  std::vector<std::string> words = text.at("words").get<std::vector<std::string>>();
  std::error_code error;
  const std::string folder = text.at("folder").get<std::string>();
  std::filesystem::current_path(folder, error);
  if (error) {
    fail(Exit::kEnvironment,
         "join {}: the run's folder {} is not here: {}; the nodes of a run share it",
         request.where,
         folder,
         error.message());
  }
  // A later flag replaces an earlier one, and the --set of its key: node 0 said where it is itself.
  words.insert(words.end(),
               {"--node-rank",
                std::to_string(told.number),
                "--master-addr",
                at.host,
                "--master-port",
                std::to_string(at.port)});
  info("nodes   this is node {} of the run at {}:{}", told.number, at.host, at.port);
  return train_verb().run(words);
}

}  // namespace

Verb join_verb() {
  return verb_of("join",
                 "take part in a run of several nodes that is at work (--nnodes MIN:MAX)",
                 "Makes this machine a node of a run that was started with --nnodes MIN:MAX: asks "
                 "the node that leads the run (at first node 0) for its command, and starts the "
                 "same here, as a node that the run lacks. The command's folders and files must be "
                 "here, too, as on all nodes.",
                 run_join);
}

Verb launch_verb() {
  const auto describe = [] { return description_of<LaunchFlags>("launch", kLaunchAbout); };
  return {
      "launch", "start your own training script as ranks, as torchrun does", describe, run_launch};
}

}  // namespace gantrain
