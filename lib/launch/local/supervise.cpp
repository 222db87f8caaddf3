// SPDX-License-Identifier: Apache-2.0
#include "launch/local/supervise.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

#include "launch/local/processes.h"
#include "launch/local/signals.h"
#include "launch/local/spawn.h"
#include "launch/nodes/node_council.h"
#include "launch/where/devices.h"
#include "util/error.h"
#include "util/log.h"
#include "util/system.h"
#include "util/time.h"

namespace gantrain {

namespace {

// Opens the standard streams that are closed, so that no pipe that is made later gets the number of
// one of them.
void open_standard_streams() {
  int fd = -1;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  ::close(fd);
}

// Where the ranks of one attempt meet. With several nodes the launchers meet at the master's port,
// and the store has another port in each attempt.
Listener listen_for_ranks(const World& world) {
  if (world.ranks.nodes > 1) return listen_on(0, false);
  // With --master-addr, ranks of other machines may be meant to connect.
  return listen_on(world.master.port, world.master.host == "127.0.0.1");
}

// Which attempt comes next, and how long it waits first.
struct Restart {
  int64_t number = 0;  // 0 at the first start
  double pause = 0;    // seconds
};

// Waits until the attempt may begin: for `pause` seconds, and until all nodes are there. Makes the
// listener for its ranks, of which other nodes have the port alone. Returns how the run ends if the
// attempt cannot begin.
std::optional<AttemptOutcome> await_start(const World& world,
                                          NodeCouncil* nodes,
                                          const StopWatch& stop,
                                          const Restart& restart,
                                          std::string& run_folder,
                                          Listener& listener) {
  const double not_before = monotonic_seconds() + restart.pause;
  if (nodes == nullptr) {
    while (monotonic_seconds() < not_before) {
      if (const auto signal = stop.wait({}, not_before)) return stopped_outcome(*signal);
    }
    listener = listen_for_ranks(world);
    return std::nullopt;
  }
  if (world.ranks.node_rank == 0) listener = listen_for_ranks(world);
  NodeCouncil::Start start{listener.port, run_folder};
  if (auto end = nodes->begin(stop, restart.number, not_before, start)) return end;
  listener.port = start.port;
  if (run_folder.empty()) run_folder = start.run_folder;
  return std::nullopt;
}

// A stop that the first rank here has not told of itself, in one line; "" if it has.
std::string untold_stop(const RankStatusBoard& board, int code) {
  const RankSlot& slot = board.slot(0);
  if (!is_stop_code(code) || slot.returned() || board.stop_request() == 0) return "";
  return early_stop_text(board.stop_request(), slot.iteration());
}

// Prints the end of a run that is not started again, and records it. `stopped` is what
// untold_stop() returned.
void say_end(const AttemptOutcome& end,
             const std::string& note,
             const std::string& stopped,
             const RecordEnd& record,
             AttemptEnd place) {
  place.code = end.code;
  if (!end.error.empty()) {
    place.error = end.error + (note.empty() ? "" : "\n        " + note);
    if (!end.resumable) place.hint.clear();
    tell_failure(place, record);
    return;
  }
  const bool said = !stopped.empty() || end.killed_at_stop;
  if (!said) place.hint.clear();
  for (const std::string& line : {stopped, place.hint}) {
    if (!line.empty()) info("{}", line);
  }
  if (record) record(place);
}

// How a launcher ended that died, and all of its ranks that were at work with it.
AttemptEnd end_of_dead(pid_t launcher,
                       const RankStatusBoard& board,
                       const World& world,
                       const ResumeHint& resume_hint) {
  const std::string folder = board.run_folder();
  AttemptEnd end{world, folder, 128 + SIGKILL, "", resume_hint(folder), {}};
  end.died = true;
  end.error = fmt::format(
      "the launcher ({}, pid {}) died without a word, and its ranks with it: "
      "killed by SIGKILL, or by the kernel for want of memory",
      host_name(),
      launcher);
  for (int64_t i = 0; i < board.ranks(); ++i) {
    const RankSlot& slot = board.slot(i);
    if (slot.pid() == 0 || slot.returned()) continue;
    Death& death = end.deaths.emplace_back(death_in(slot, first_rank(world) + i));
    death.signal = SIGKILL;
    death.sent_by_gantrain = true;
    death.message = end.error;
  }
  return end;
}

}  // namespace

void tell_failure(const AttemptEnd& end, const RecordEnd& record) {
  error("{}{}{}", end.error, end.hint.empty() ? "" : "\n", end.hint);
  if (record) record(end);
}

WorldEnd launch(const World& world,
                const LaunchOptions& options,
                const std::string& request_json,
                const LoadTrainer& load,
                const ResumeHint& resume_hint,
                const RecordEnd& record) {
  open_standard_streams();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  SignalGate gate;
  const int64_t threads = threads_per_rank(options, current_environment(), world.ranks.local_world);
  const std::string master_host = reachable_master(world);
  const pid_t starter = world.source == "local" ? 0 : getppid();
  const StopWatch stop{gate, starter};
  std::optional<NodeCouncil> council;
  if (world.ranks.nodes > 1)
    council.emplace(world, options, Endpoint{master_host, world.master.port});
  NodeCouncil* nodes = council ? &*council : nullptr;
  Restarts restarts(options);
  std::string run_folder;
  for (Restart next;; ++next.number) {
    Listener listener;
    if (const auto end = await_start(world, nodes, stop, next, run_folder, listener)) {
      say_end(*end, "", "", record, {world, run_folder, 0, "", resume_hint(run_folder), {}});
      return {end->code, run_folder};
    }
    const std::unique_ptr<RankStatusBoard> board = RankStatusBoard::create(world.ranks.local_world);
    board->set_run_folder(run_folder);
    Attempt attempt{world,
                    options,
                    request_json,
                    load,
                    *board,
                    master_host,
                    threads,
                    next.number,
                    gate.original_mask(),
                    gate.descriptor(),
                    starter,
                    nodes};
    start_orphan_guard(*board, [&, launcher = getpid()] {
      if (record) tell_failure(end_of_dead(launcher, *board, world, resume_hint), record);
    });
    std::vector<Death> deaths;
    const AttemptOutcome end = run_attempt(attempt, gate, std::move(listener), deaths);
    run_folder = board->run_folder();
    const bool stopped = board->stop_request() != 0;
    Restarts::Decision decision;
    if (nodes != nullptr && !end.error.empty()) {
      decision = nodes->agree(stop, restarts, stopped);
    } else if (!stopped) {
      decision = restarts.after(end);
    }
    if (decision.again) {
      warn("{}", end.error);
      info("{}", decision.note);
      if (record) record({world, run_folder, end.code, end.error, "", deaths});
      next.pause = decision.pause;
      continue;
    }
    if (nodes != nullptr) nodes->finish(end.code, decision.note);
    say_end(end,
            decision.note,
            untold_stop(*board, end.code),
            record,
            {world, run_folder, 0, "", resume_hint(run_folder), deaths});
    return {end.code, run_folder};
  }
}

}  // namespace gantrain
