// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launch/death/death.h"
#include "launch/local/processes.h"
#include "launch/local/rank.h"
#include "launch/local/supervise.h"
#include "launch/where/network.h"

namespace gantrain {

// Clears the live bar that rank 0 may have drawn on the terminal. The launcher calls this before it
// writes a message.
void clear_live_bar();

// Where that goes which comes through a rank's pipe.
struct OutputWay {
  int to = STDERR_FILENO;  // STDOUT_FILENO, too; -1: to the file alone
  bool waits = false;      // the rank waits for a slow reader; else what nobody reads is dropped
  bool prefixed = true;    // whole lines with the rank in front; else bytes as they come
  UniqueFd file = {};      // gets a copy as it is, if there is one
  std::string path = {};   // of the file
  // Where the file cannot be written any more, the stream is shown here from then on.
  int instead = -1;
  std::string* unwritten = nullptr;  // then gets the path and why, where it is still ""
};

// Prints what the ranks write, other than the training's rank 0. Only whole lines are printed, each
// with its rank in front; a line of more than 64 KiB is cut into pieces of that length. If a line
// was redrawn with \r, only what was drawn last is printed: when it is whole, and each 10 s before.
class Output {
 public:
  static constexpr size_t kLongestLine = 64 * 1024;

  // Takes over the read end of a pipe that the rank writes to. Its standard error comes last.
  void add(int64_t rank, UniqueFd pipe, OutputWay way = {});

  // Appends the descriptors that poll() has to watch.
  void watch(std::vector<pollfd>& polled) const;

  // Prints the whole lines that have arrived. It never waits.
  void relay();

  // Prints everything that has arrived, unfinished lines too. It does not wait for processes that
  // could still write.
  void finish();

  // What the rank has last written to standard error, also what nobody has printed yet: at most
  // 8 KiB.
  std::string last_words(int64_t rank);

  // Waits until what programs have printed is taken, or a signal other than SIGCHLD comes.
  void wait_for_reader(SignalGate& gate) const;

 private:
  struct Stream {
    int64_t rank;
    UniqueFd pipe;
    OutputWay way;
    std::string pending = {};
    std::string last = {};
    double shown = 0;  // monotonic seconds at which a line was printed
  };
  static void take(Stream& stream, size_t most);
  static void give_up_file(Stream& stream);
  static void print_lines(Stream& stream, bool unfinished_too);

  std::vector<Stream> streams_;
};

class ElasticSupervision;
class NodeCouncil;

// A rank's process, as its supervisor knows it.
struct RankProcess {
  pid_t pid = -1;
  bool alive = true;
  bool kill_sent = false;
  bool stop_sent = false;
  int code = 0;              // its exit code; 0 if a signal that we sent ended it
  double stopped_since = 0;  // monotonic seconds; 0: it is not stopped, as by SIGSTOP

  // Whether it was this launcher that sent it the signal.
  bool was_sent(int signal) const {
    return signal == SIGKILL ? kill_sent : stop_sent && (signal == SIGTERM || signal == SIGUSR1);
  }
};

// Does nothing to a process that has ended.
void kill_rank(RankProcess& rank);

// What is known of a rank from its slot and its process, where that is still there. The rank has
// that number in the world.
Death death_of(const RankProcess& process, const RankSlot& slot, int64_t rank);

// Adds how the process ended; `kills_before` is out_of_memory_kills() when the ranks began.
void note_end(Death& death, int status, const rusage& usage, int64_t kills_before);

// Where a rank has given no sign of life for `allowed` seconds, or has been stopped for so long
// before its first one, all ranks that are watched: those that live and have begun to train, and
// it. Silence counts from `from` on at the earliest (monotonic seconds). A rank that writes a state
// may be silent six times as long.
std::vector<size_t> silent_ranks(std::vector<RankProcess>& ranks,
                                 const RankStatusBoard& board,
                                 double from,
                                 double allowed);

// What one fork server needs to start the ranks of this node once.
struct Attempt {
  const LaunchSpec& spec;
  RankStatusBoard& board;
  SignalGate& gate;  // the launcher's
  std::string master_host;
  int64_t threads;  // of each rank
  int64_t number;   // 0 at the first start, 1, 2, ... after restarts
  // The process of another launcher (mpirun) that started this one: if it goes, the run is stopped.
  // 0: a shell started it, which may go.
  pid_t starter = 0;
  NodeCouncil* nodes = nullptr;  // the launchers of the other nodes; null with one node
  bool speaks = true;            // false: node 0's launcher says in the same stream what goes on
  ElasticSupervision* elastic = nullptr;  // of a run whose ranks come and go
  std::vector<int64_t> slots = {};        // of its ranks that are started; else all of this node
  std::string* unwritten = nullptr;       // WorldEnd::unwritten

  // Program::file() of a rank in this attempt.
  std::filesystem::path file_of(int64_t rank, const char* kind) const {
    return spec.program->file(board.run_folder(), number, rank, kind);
  }
};

// The slots of the ranks that an attempt starts.
std::vector<int64_t> slots_of(const Attempt& attempt);

// What the fork server answers: that the slots of the board have the pids of the ranks, or why
// there are none. An answer is complete once it ends with a zero byte. The end of the file would
// not do, because a rank that has not run yet still holds the pipe.
struct ForkServerAnswer {
  bool complete = false;
  Exit code = Exit::kDone;
  std::string error;
};

struct ForkServer {
  pid_t pid = -1;
  UniqueFd answer;  // the read end of the pipe to which it writes; closed once nothing more comes
  UniqueFd port;    // kept for a program's rank 0, which listens on it itself
  std::string answered = {};

  // Reads what it has answered by now, without waiting.
  ForkServerAnswer read_answer();
};

// Why there are no ranks, for a fork server that ended with that status before it had answered.
// `hang_timeout`: in seconds, where it was killed because it was stopped for so long; else 0.
std::string loader_end_text(int status, double hang_timeout);

// The exit code of a training in which no rank failed; `stop_signal` is the signal that asked for a
// stop, or 0.
int unfailed_code(int stop_signal, const std::vector<RankProcess>& ranks);

// What the user is told when the ranks have been asked to stop, and have so many seconds for it.
std::string asked_text(int signal, bool program, double grace);

// The exit code for that. Somebody else kills; a crash is a mistake of this program and would come
// again. `short_of_memory`: the kernel's out-of-memory killer was at work.
Exit loader_end_code(int status, bool short_of_memory);

// Forks the fork server. That process calls `load`, forks the ranks, answers and exits. The ranks
// then become children of the calling process, which must be a child subreaper. Only rank 0 keeps
// the listener. The pipes with the other ranks' output are handed to `output`. Where there is no
// rank to start yet, it starts no process.
ForkServer start_fork_server(const Attempt& attempt, Listener listener, Output& output);

// Starts the ranks of this node, watches them until all have ended, and says how the attempt ended
// and which ranks of this node died.
DeathVerdict run_attempt(const Attempt& attempt, Listener listener);

}  // namespace gantrain
