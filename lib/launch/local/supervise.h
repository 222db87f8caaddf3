// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/death/death.h"
#include "launch/local/program.h"
#include "launch/local/rank.h"
#include "launch/options.h"
#include "launch/where/environment.h"
#include "util/rank_info.h"

namespace gantrain {

// Loads the trainer and returns its entry function. It is called in the fork server, or in a
// worker's own process, and must not start a thread. A UserError that it throws is printed once.
using LoadTrainer = std::function<RankMain()>;
// Returns the line that tells the user how to go on with the run in that folder, without a newline,
// or "" if there is nothing to say. The folder is "" if the run has made none yet.
using ResumeHint = std::function<std::string(const std::string& run_folder)>;
// Names the newest state of the run in that folder; "" if there is none. A run that has another one
// than at its last failure has moved on.
using NewestState = std::function<std::string(const std::string& run_folder)>;

// Whether this is the worker of rank 0, or the launcher of node 0, which leads at first.
inline bool tells_at_first(const World& world) {
  return (world.role == World::Role::kWorker ? world.ranks.rank : world.ranks.node_rank) == 0;
}

// How an attempt to run ended on this node, or a worker of another launcher.
struct AttemptEnd {
  const World& world;
  std::string run_folder;  // "" if the run has made none yet
  int code = 0;            // exit code
  std::string error;       // what was printed as the cause; "" if nothing failed
  std::string hint;        // what ResumeHint returned, if it was printed
  // Those of this node's ranks that died, whoever caused it, the first one first; then why none was
  // started, and the launchers of other nodes that are gone.
  std::vector<Death> deaths;
  // This process outlives the launcher or the worker that died before it could write this down.
  bool died = false;
  const RankStatusBoard* board = nullptr;  // of those ranks; null: none was started
  bool first = true;                       // of a worker: no other one has told of an earlier cause
  bool frozen = false;  // of a worker: its process is stopped, and the others have given it up
  // It writes what is of the run and not of a node: STATUS, the end of log.txt, the page.
  bool tells_of_run = tells_at_first(world);
};
// Writes down how an attempt ended. It is called after the ranks have ended and standard error has
// been told, also before the ranks are started again; and where the launcher or the worker itself
// was killed, by a process that outlives it. It must not throw.
using RecordEnd = std::function<void(const AttemptEnd& end)>;

// Whether all that the processes of a run write is shown as one text, as srun and mpirun do. What
// all of them have to say is said by few of them then.
bool is_one_stream(const World& world);

// Prints the cause of a failed attempt and its hint as an error, and records it.
void tell_failure(const AttemptEnd& end, const RecordEnd& record);

// How a run ended.
struct WorldEnd {
  int code = 0;                // exit code
  std::string run_folder;      // "" if the run ended before there was one
  bool tells_of_run = false;   // as in AttemptEnd
  std::string unwritten = {};  // the first file of a program's output that could not be written
};

// What launch() and run_worker() are asked for.
struct LaunchSpec {
  const World& world;
  const LaunchOptions& options;
  std::string request_json;  // is handed to the ranks as it is
  LoadTrainer load;
  ResumeHint resume_hint;
  RecordEnd record = {};
  std::string run_dir = {};  // --run-dir, "" if it was not given
  std::string out = {};      // --out. Run folders that other nodes name must lie in one of these.
  // What the ranks are instead of the trainer; null for a training. `load` is not called then.
  const Program* program = nullptr;
  // Called once in each attempt on the node of rank 0, when rank 0 has begun to train: for a
  // process that start_again() starts. It ends with the attempt, killed as all that is below.
  std::function<void(const std::string& run_folder)> at_work = {};
  NewestState newest_state = {};
  std::string invitation = {};  // of an elastic run: what a node that asks to join it is told
};

// Starts this program again as a child, which dies with this process, or with the thread that calls
// this. It reads nothing, and a signal to this process's group does not reach it. Returns its
// process id; negative, with errno, where it cannot be started. Threads may run meanwhile.
pid_t start_again(const std::vector<std::string>& arguments);

// What a launcher does: it starts the ranks of this node, waits until all of them have ended and
// returns the exit code of the run. The report of a failure is the last thing that is written to
// standard error. When the function returns, no process below this one is left; and if this process
// dies, however it dies, the ranks die too.
// A stop before the first save is told in one line. Throws UserError for what is wrong before
// anything is started: a port in use.
// It must be called from the main thread of a process that has no other threads, and no children
// but those of the program that became this one by exec, which are left alone.
WorldEnd launch(const LaunchSpec& spec);

// What a worker of torchrun, srun or mpirun does: it does a rank's work in this process and returns
// the rank's exit code. If the rank failed, a report is written to standard error first. Throws
// UserError for what is wrong before the rank starts.
WorldEnd run_worker(const LaunchSpec& spec);

// Runs `body` in `world` children of this process and returns what each of them returned, by rank.
// The children can meet on the loopback interface. This is for short checks that do not need what
// the launcher does for a run. The calling process must have no threads, so it must not have called
// LibTorch. The children are killed when this process dies, and after `seconds`. Throws
// UserError(kRankDied) with what the first rank that failed threw, or with how it died.
std::vector<std::string> run_local_ranks(int64_t world,
                                         int64_t seconds,
                                         const std::function<std::string(const Rendezvous&)>& body);

// True where the process that started this launcher is gone, which is then told; 0: there is none.
bool is_gone(pid_t starter);

class SignalGate;

// What ends a launcher's wait between attempts.
struct StopWatch {
  SignalGate& gate;
  pid_t starter;  // as in Attempt
  bool program;   // SIGUSR1 is a notice to the ranks, of which there are none; it ends nothing

  // Waits until one of `polled` is ready or monotonic_seconds() is `until`. Returns the signal if a
  // stop was asked for meanwhile, SIGTERM if the starter is gone.
  std::optional<int> wait(std::vector<pollfd> polled, double until) const;
};

// How an attempt ends that a stop signal ended before it began.
AttemptOutcome stopped_outcome(int signal);

}  // namespace gantrain
