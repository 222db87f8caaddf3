// SPDX-License-Identifier: Apache-2.0
#include "launch/local/supervise.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iterator>
#include <utility>

#include "launch/local/processes.h"
#include "launch/local/spawn.h"
#include "launch/nodes/node_council.h"
#include "launch/where/devices.h"
#include "launch/where/network.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr double kLookAtStarter = 1;  // seconds between two looks

struct Child {
  pid_t pid = -1;
  UniqueFd answer;
};

[[noreturn]] void run_child(const Rendezvous& meeting,
                            pid_t parent,
                            int64_t seconds,
                            int answer,
                            const std::function<std::string(const Rendezvous&)>& body) {
  die_with(parent);
  alarm(static_cast<unsigned>(seconds));
  std::string text;
  int code = 0;
  try {
    text = body(meeting);
  } catch (const UserError& e) {
    text = e.what();
    code = static_cast<int>(e.code());
  } catch (const std::exception& e) {
    text = e.what();
    code = code_of(Exit::kInternal);
  }
  write_whole(answer, text);
  std::fflush(nullptr);
  _exit(code);  // static destructors would wait for peers that may be gone
}

// How a rank died, of which no time is known. One that was ended by its alarm has waited in vain
// for another one, whose own reason tells more.
Death death_of(size_t rank, int status, const std::string& answer) {
  Death death{.rank = static_cast<int64_t>(rank)};
  if (WIFEXITED(status)) {
    death.code = WEXITSTATUS(status);
    death.message = answer;
  } else if (WTERMSIG(status) == SIGALRM) {
    death.message = "timed out waiting";
  } else {
    death.signal = WTERMSIG(status);
  }
  return death;
}

// Opens the standard streams that are closed, so that no pipe that is made later gets the number of
// one of them.
void open_standard_streams() {
  int fd = -1;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  ::close(fd);
}

constexpr int64_t kOwnFiles = 32;  // of a launcher, whatever it starts

// Which attempt comes next, and how long it waits first.
struct Restart {
  int64_t number = 0;  // 0 at the first start
  double pause = 0;    // seconds
};

// Who waits for an attempt to begin.
struct Beginning {
  const LaunchSpec& spec;
  NodeCouncil* nodes;
  const StopWatch& stop;
  std::vector<std::string> addresses;  // on node 0: where ranks can reach it

  // Where rank 0 listens; what is no trainer opens the port itself, on all addresses.
  Listener listener(int64_t port) const {
    const bool trains = spec.program == nullptr;
    // A node that leads in another's place has a listener for its ranks where it is reached.
    const auto own = addresses.empty() ? std::vector{nodes->own_host()} : addresses;
    return listen_on(port, trains ? own : kAllAddresses, /*listens=*/trains);
  }
};

// Waits until the attempt may begin: for `pause` seconds, and until all nodes are there. Makes the
// listener for its ranks, of which other nodes have the port alone. Returns how the run ends if the
// attempt cannot begin.
std::optional<AttemptOutcome> await_start(const Beginning& here,
                                          const Restart& restart,
                                          std::string& run_folder,
                                          Listener& listener) {
  const World& world = here.spec.world;
  const double not_before = monotonic_seconds() + restart.pause;
  if (here.nodes == nullptr) {
    while (monotonic_seconds() < not_before) {
      if (const auto signal = here.stop.wait({}, not_before)) return stopped_outcome(*signal);
    }
    listener = here.listener(world.master.port);
    return std::nullopt;
  }
  // The launchers meet at the master's port, so the store has another one in each attempt.
  if (here.nodes->leads()) listener = here.listener(0);
  NodeCouncil::Start start{listener.port, run_folder};
  if (auto end = here.nodes->begin(here.stop, restart.number, not_before, start)) return end;
  listener.port = start.port;
  if (!run_folder.empty() || start.run_folder.empty()) return std::nullopt;
  const std::string& own = here.spec.run_dir.empty() ? here.spec.out : here.spec.run_dir;
  const bool fits =
      here.spec.program != nullptr ? is_run_id(start.run_folder) : lies_in(start.run_folder, own);
  if (!fits) {
    return here.nodes->refuse_all(
        Exit::kEnvironment,
        fmt::format("node {}: node 0's run folder {} is not in {}, which the command names here: "
                    "give all nodes the same --run-dir or --out",
                    world.ranks.node_rank,
                    start.run_folder,
                    own));
  }
  run_folder = start.run_folder;
  return std::nullopt;
}

// A stop that the rank which speaks has not told of itself, in one line; "" if it has. Of an
// elastic run any rank may be the one, and of one on several nodes it may be elsewhere.
std::string untold_stop(const RankStatusBoard& board, bool elastic, bool alone, int code) {
  if (elastic && !alone) return "";
  if (!is_stop_code(code) || board.stop_request == 0) return "";
  int64_t iteration = 0;
  for (int64_t i = 0; i < (elastic ? board.ranks() : 1); ++i) {
    if (board.slot(i).returned) return "";
    iteration = std::max(iteration, board.slot(i).iteration());
  }
  return early_stop_text(board.stop_request, iteration);
}

// What a launcher says of a failure, and writes down.
struct Voice {
  const RecordEnd& record;
  bool speaks;  // false: another node's launcher says it, in the same stream

  void tell(const AttemptEnd& end) const {
    if (speaks) return tell_failure(end, record);
    if (record) record(end);
  }
};

bool speaks(const World& world, const NodeCouncil* nodes) {
  return nodes == nullptr || !is_one_stream(world) || nodes->speaks_for_all();
}

// Prints the end of a run that is not started again, and records it. `stopped` is what
// untold_stop() returned.
void say_end(const AttemptOutcome& end,
             const std::string& note,
             const std::string& stopped,
             const Voice& voice,
             AttemptEnd place) {
  place.code = end.code;
  if (!end.error.empty()) {
    place.error = end.error + (note.empty() ? "" : "\n        " + note);
    if (!end.resumable) place.hint.clear();
    voice.tell(place);
    return;
  }
  const bool said = !stopped.empty() || end.killed_at_stop;
  if (!said) place.hint.clear();
  for (const std::string& line : {stopped, place.hint}) {
    if (!line.empty()) info("{}", line);
  }
  if (voice.record) voice.record(place);
}

// How a launcher ended that died, and all of its ranks that were at work with it.
AttemptEnd end_of_dead(pid_t launcher, const RankStatusBoard& board, const LaunchSpec& spec) {
  const std::string folder = board.run_folder();
  AttemptEnd end{spec.world, folder, 128 + SIGKILL, "", spec.resume_hint(folder), {}};
  end.died = true;
  end.board = &board;
  end.tells_of_run = end.tells_of_run && board.tells_of_run;
  end.error = fmt::format(
      "the launcher ({}, pid {}) died without a word, and its ranks with it: "
      "killed by SIGKILL, or by the kernel for want of memory",
      host_name(),
      launcher);
  for (int64_t i = 0; i < board.ranks(); ++i) {
    const RankSlot& slot = board.slot(i);
    if (slot.pid == 0 || slot.returned) continue;
    Death& death = end.deaths.emplace_back(death_in(slot, first_rank(spec.world) + i));
    death.signal = SIGKILL;
    death.sent_by_gantrain = true;
    death.message = end.error;
  }
  return end;
}

}  // namespace

std::vector<std::string> run_local_ranks(
    int64_t world, int64_t seconds, const std::function<std::string(const Rendezvous&)>& body) {
  Listener listener = listen_on(0, kLoopback);
  std::fflush(nullptr);  // else what is buffered would be printed by every process
  std::vector<Child> children;
  for (int64_t rank = 0; rank < world; ++rank) {
    Pipe pipe = make_pipe();
    const pid_t parent = getpid(), pid = fork();
    if (pid < 0) fail(Exit::kEnvironment, "cannot start a process: {}", errno_text());
    if (pid == 0) {
      Rendezvous meeting;
      meeting.ranks = {.rank = rank, .world = world, .local_rank = rank, .local_world = world};
      meeting.master.port = listener.port;
      if (rank == 0) {
        meeting.listen_fd = listener.socket.get();
      } else {
        listener.socket.close();  // a copy would keep the port after rank 0's death
      }
      run_child(meeting, parent, seconds, pipe.write.get(), body);
    }
    children.push_back({pid, std::move(pipe.read)});
  }
  listener.socket.close();
  std::vector<std::string> answers;
  std::vector<Death> deaths;
  for (Child& child : children) {
    read_from(child.answer.get(), answers.emplace_back(), SIZE_MAX);
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    if (status == 0) continue;
    deaths.push_back(death_of(answers.size() - 1, status, answers.back()));
    if (WIFSIGNALED(status)) answers.back() = fmt::format("signal {}", WTERMSIG(status));
  }
  if (const auto verdict = decide(deaths, 1)) {
    const int64_t first = verdict->ranks.front().rank;
    throw UserError(static_cast<Exit>(verdict->end.code),
                    fmt::format("rank {}: {}", first, answers[static_cast<size_t>(first)]));
  }
  return answers;
}

pid_t start_again(const std::vector<std::string>& arguments) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string own = read_file("/proc/self/cmdline");
  std::vector<std::string> words = arguments;
  words.insert(words.begin(), own.substr(0, own.find('\0')));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child != 0) return child;
  // Only what may follow a fork of a process with threads.
  die_with(parent);
  ::setpgid(0, 0);
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(nothing, STDOUT_FILENO);
  ::execv(program.c_str(), argv.data());
  constexpr int kNoProgram = 127;
  ::_exit(kNoProgram);
}

bool is_one_stream(const World& world) { return world.source == "slurm" || world.source == "mpi"; }

void tell_failure(const AttemptEnd& end, const RecordEnd& record) {
  log_line(Level::kError, end.error + (end.hint.empty() ? "" : "\n") + end.hint);
  if (record) record(end);
}

bool is_gone(pid_t starter) {
  if (starter == 0 || ::getppid() == starter) return false;
  clear_live_bar();
  warn("process {}, which started this launcher, is gone", starter);
  return true;
}

std::optional<int> StopWatch::wait(std::vector<pollfd> polled, double until) const {
  polled.push_back({gate.descriptor(), POLLIN, 0});
  if (starter != 0) until = std::min(until, monotonic_seconds() + kLookAtStarter);
  poll_until(polled, until);
  while (const auto signal = gate.next()) {
    if (*signal != SIGCHLD && !(program && *signal == SIGUSR1)) return signal;
  }
  return is_gone(starter) ? std::optional(SIGTERM) : std::nullopt;
}

AttemptOutcome stopped_outcome(int signal) {
  info("{}: stopped before the ranks were started", signal_text(signal));
  const Exit code = signal == SIGINT ? Exit::kInterrupted : Exit::kStopped;
  return {.code = static_cast<int>(code), .killed_at_stop = true, .stopped_by = signal};
}

WorldEnd launch(const LaunchSpec& spec) {
  const World& world = spec.world;
  open_standard_streams();
  note_strangers();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  // Each rank has two pipes, of which both ends are open at the start, and each node a connection.
  need_descriptors(4 * world.ranks.local_world + world.ranks.nodes + kOwnFiles,
                   fmt::format("the launcher of {}", counted(world.ranks.local_world, "rank")));
  SignalGate gate;
  const int64_t threads =
      threads_per_rank(spec.options, current_environment(), world.ranks.local_world);
  const std::string master_host = reachable_master(world);
  const pid_t starter = world.source == "local" ? 0 : getppid();
  const StopWatch stop{gate, starter, spec.program != nullptr};
  const bool elastic = spec.program == nullptr && is_elastic(spec.options);
  std::optional<NodeAddress> leader;  // of a run at work, which this node joins
  std::optional<NodeCouncil> council;
  std::vector<std::string> addresses;
  if (world.ranks.nodes > 1) {
    const std::string secret = job_secret(current_environment());
    if (elastic && !spec.run_dir.empty()) leader = find_leader(spec.run_dir, secret);
    if (world.ranks.node_rank == 0 && !leader) addresses = addresses_to_bind(master_host);
    const Endpoint at{leader ? leader->host : master_host,
                      leader ? leader->port : world.master.port};
    council.emplace(NodeLink(world, spec.options, addresses, secret, spec.run_dir, leader),
                    at,
                    spec.options.patience.meeting);
    if (elastic)
      council->be_elastic(spec.options.nnodes_min.value_or(world.ranks.nodes), spec.invitation);
  } else {
    addresses = addresses_to_bind(master_host);
  }
  NodeCouncil* nodes = council ? &*council : nullptr;
  const auto tells = [&] { return nodes == nullptr ? tells_at_first(world) : nodes->leads(); };
  Restarts restarts(spec.options);
  std::string run_folder;  // of a program it is the run's id
  if (spec.program != nullptr && world.ranks.node_rank == 0) run_folder = spec.program->run_id;
  std::string unwritten;
  for (Restart next;; ++next.number) {
    Listener listener;
    if (auto end = await_start({spec, nodes, stop, addresses}, next, run_folder, listener)) {
      // A program that has saved nothing is not "stopped early and resumable".
      if (spec.program != nullptr && end->stopped_by != 0) end->code = 128 + end->stopped_by;
      AttemptEnd place{world, run_folder, 0, "", spec.resume_hint(run_folder), {}};
      place.tells_of_run = tells();
      say_end(*end, "", "", {spec.record, speaks(world, nodes)}, place);
      return {end->code, run_folder, tells(), unwritten};
    }
    const auto board = RankStatusBoard::create(world.ranks.local_world);
    board->set_run_folder(run_folder);
    start_orphan_guard(*board, [&, launcher = getpid()] {
      if (spec.record) tell_failure(end_of_dead(launcher, *board, spec), spec.record);
    });
    auto [end, deaths] = run_attempt({spec,
                                      *board,
                                      gate,
                                      master_host,
                                      threads,
                                      next.number,
                                      starter,
                                      nodes,
                                      speaks(world, nodes),
                                      nullptr,
                                      {},
                                      &unwritten},
                                     std::move(listener));
    if (nodes != nullptr) std::ranges::copy(nodes->lost(), std::back_inserter(deaths));
    run_folder = board->run_folder();
    const bool stopped = board->stop_request != 0;
    if (spec.newest_state) restarts.note_saved(spec.newest_state(run_folder));
    Restarts::Decision decision;
    if (nodes != nullptr && !end.error.empty()) {
      decision = nodes->agree(stop, restarts, stopped);
    } else if (!stopped) {
      decision = restarts.after(end);
    }
    const Voice voice{spec.record, speaks(world, nodes)};
    AttemptEnd place{world, run_folder, end.code, end.error, "", deaths, false, board.get()};
    place.tells_of_run = tells();
    if (decision.again) {
      if (voice.speaks) {
        log_line(Level::kWarning, end.error);
        info("{}", decision.note);
      }
      if (spec.record) spec.record(place);
      next.pause = decision.pause;
      continue;
    }
    if (nodes != nullptr) nodes->finish(end.code, decision.note);
    place.error.clear();
    place.hint = spec.resume_hint(run_folder);
    say_end(end,
            decision.note,
            untold_stop(*board, is_elastic(spec.options), nodes == nullptr, end.code),
            voice,
            place);
    return {end.code, run_folder, tells(), unwritten};
  }
}

}  // namespace gantrain
