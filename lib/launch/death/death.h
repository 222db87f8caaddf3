// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/local/rank.h"
#include "launch/options.h"

namespace gantrain {

// How far a rank has come, as its launcher sees it.
struct RankProgress {
  bool stopped = false;      // by SIGSTOP, a terminal or a debugger
  int64_t collectives = 0;   // that it has entered, the same ones in the same order on every rank
  int64_t iteration = 0;     // that it has finished
  int64_t heartbeat_ns = 0;  // its last sign of life
};

template <class Field>
void fields(RankProgress& p, Field&& field) {
  field("stopped", p.stopped);
  field("collectives", p.collectives);
  field("iteration", p.iteration);
  field("heartbeat_ns", p.heartbeat_ns);
}

// True if `a` has certainly come less far than `b`: it is stopped, or it has not entered a
// collective in which `b` is or was. Signs of life do not decide this. A rank that waits in a
// collective gives none either, so between ranks of one phase their order is chance.
bool is_behind(const RankProgress& a, const RankProgress& b);

// The index of the rank that has come least far. Where is_behind() finds no difference, it is the
// one whose last sign of life is the oldest. `ranks` must not be empty.
size_t furthest_behind(const std::vector<RankProgress>& ranks);

// What went wrong with a rank, or with what its launcher did for it: one value from the rank's slot
// of the rank status board, by way of decide() and the other launchers, to errors/rank<k>.json.
struct Death {
  enum class Kind {
    kRank,      // a rank ended as it should not
    kHang,      // no rank of the node makes progress, and this one has come least far
    kLoader,    // the trainer could not be loaded: `message`
    kLauncher,  // the launcher of another node is gone or silent: `message`
    kAlive      // nothing yet; but the rank has come less far than the others of its node
  };

  Kind kind = Kind::kRank;
  int64_t node = -1;  // whose launcher tells it, if a run has several
  std::string host = {};
  int64_t rank = 0;
  pid_t pid = 0;
  // monotonic_ns() when the rank reported it, or else when its end was seen; for other launchers,
  // when they were told.
  int64_t ns = 0;
  int signal = 0;  // the signal that ended it; 0: it ended by itself
  int code = 0;    // the code that the rank reported, or else its exit code
  std::string message = {};
  std::string stack = {};  // of the thread that crashed; "" if none did
  std::string phase = {};
  // By its last collective, as standing_text() has it; "": it has entered none, or is a program.
  std::string collective = {};
  int64_t iteration = 0;
  int64_t images_seen = 0;
  int64_t peak_kib = 0;           // the most memory that it ever had, in KiB; 0: unknown
  bool sent_by_gantrain = false;  // the signal followed from the launcher's death
  bool host_was_short = false;    // the kernel's out-of-memory killer was at work during the run
  double hang_timeout = 0;        // of a hang, in seconds
  bool program = false;           // no rank of a training: a program of the user's (Program)
  RankProgress progress = {};
};

constexpr std::array<std::string_view, 5> names(Death::Kind) {
  return {"rank", "hang", "loader", "launcher", "alive"};
}

// What other launchers are told of a death.
template <class Field>
void fields(Death& d, Field&& field) {
  field("kind", d.kind);
  field("node", d.node);
  field("host", d.host);
  field("rank", d.rank);
  field("pid", d.pid);
  field("signal", d.signal);
  field("code", d.code);
  field("message", d.message);
  field("phase", d.phase);
  field("collective", d.collective);
  field("iteration", d.iteration);
  field("images_seen", d.images_seen);
  field("peak_kib", d.peak_kib);
  field("sent_by_gantrain", d.sent_by_gantrain);
  field("host_was_short", d.host_was_short);
  field("hang_timeout", d.hang_timeout);
  field("program", d.program);
  field("progress", d.progress);
}

// A death as far as the rank's slot of the board tells it: where the rank was, the stack if it
// crashed, and what it reported, without which `ns` is 0. How its process ended is left open.
Death death_in(const RankSlot& slot, int64_t rank);

// True if the death is one that a rank has because another rank died or did not come, such as
// "connection closed by peer" or a collective's timeout. A rank may die of it by SIGABRT: NCCL's
// watchdog thread ends the process so.
bool is_victim(const Death& death);

// True if the rank is a victim that waited for others until its time was over.
bool waited_in_vain(const Death& death);

// The exit code of a run that ends because of the rank: its code if that is 2 to 8; 7 if the kernel
// killed it for want of host memory; otherwise 6. Of a program it is the program's own, or 128 and
// the signal's number.
int exit_code(const Death& death);

// True if starting the ranks again may help. It does not help where the user has to change
// something first.
bool is_restartable(const Death& death);

// What makes a rank's death the same one as another: the signal or the message, without numbers
// such as ranks and pids. "" for a rank that somebody killed before its first iteration, and for a
// program: they say nothing about where it was.
std::string cause_of(const Death& death);

// Describes a rank's death in one to five lines, without a newline at the end: the rank, its host
// and pid, how it ended, in which phase and how far the training was, and the rank's message, of
// which the lines that name the cause come first. For a bad configuration or bad data that was
// found before the first iteration, it is the message alone.
std::string death_text(const Death& death, int64_t nodes);

// Says in one or two lines which rank is behind, what it was doing, and by which collective.
std::string behind_text(const Death& behind);

// "no progress for 10m (--hang-timeout)".
std::string hang_text(double hang_timeout_seconds);

// "; rank 0 waited for it in vain: timed out", which stands behind the rank that is behind.
std::string waiting_text(const Death& waiting);

// A table with one line per rank: its number, phase, iteration, kimg and the seconds since its last
// sign of life. `first_rank` is the rank of the board's first slot.
std::string progress_table(const RankStatusBoard& board, int64_t first_rank);

// How the collectives of the board's ranks differ, as mismatch_text() of traces says it.
std::string mismatch_text(const RankStatusBoard& board, int64_t first_rank);

// The number of processes that the kernel's out-of-memory killer has ended so far on this host and
// in this control group. A rise between two calls says that it was at work.
int64_t out_of_memory_kills();

// How an attempt ended.
struct AttemptOutcome {
  int code = 0;                 // exit code
  std::string error = {};       // the text to print last; empty if nothing failed
  bool restartable = false;     // starting the ranks again may help
  bool resumable = false;       // the resume hint is to be printed under the error
  bool killed_at_stop = false;  // a stop was asked for, and some rank had to be killed
  // What two failures have in common that are the same one, whichever rank had it and whatever its
  // pid: a signal or the rank's message. "" if it says nothing about where the training was.
  std::string cause = {};
  int64_t iteration = 0;  // at which the rank that failed was
  int stopped_by = 0;     // the signal that ended it before ranks were started; others know it
};

// What other launchers are told of how an attempt ends.
template <class Field>
void fields(AttemptOutcome& o, Field&& field) {
  field("code", o.code);
  field("error", o.error);
  field("restartable", o.restartable);
  field("resumable", o.resumable);
  field("cause", o.cause);
  field("iteration", o.iteration);
}

// How much a death explains, the least first.
enum class Blame {
  kNone,    // the rank lives
  kVictim,  // a rank died as one does whose peer is gone
  kHang,    // no rank of a node makes progress
  kCause    // it happened by itself
};
Blame blame_of(const Death& death);

// Seconds in which the cause of a victim's death has to show. The launchers of several nodes tell
// each other first.
constexpr double cause_wait(int64_t nodes) { return nodes == 1 ? 1 : 2; }

// What is known of one node in one death: that it hangs, whatever its ranks died of meanwhile; else
// the death that caused the others there. That is the earliest one. If the earliest looks like a
// victim's, it is the first that does not and came within cause_wait(), if there is such a one.
// Null if nobody died there. The result is an element of `of_node`.
const Death* word_of(const std::vector<Death>& of_node, int64_t nodes);

struct DeathVerdict {
  AttemptOutcome end;
  // Those of the ranks that died, the first cause first. A rank that hung or was waited for in vain
  // is that one, with the code 6. Empty if the cause is no rank's.
  std::vector<Death> ranks;
};

// Says who was first and how the world ends: for one node, whose launcher is a council of one, for
// the nodes of a run, each with its word, and for the only rank that a worker of another launcher
// knows. It is the word of a node that explains the others. If there are only ranks that lost a
// peer or wait for one, it is the rank that has come least far, if one is certainly behind, or else
// the earliest. Nothing if nobody died. A function that knows no clock.
std::optional<DeathVerdict> decide(const std::vector<Death>& deaths, int64_t nodes);

// From when on decide() knows all that it waits for, on the clock of Death::ns. Nothing if nobody
// died.
std::optional<int64_t> decides_at(const std::vector<Death>& deaths, int64_t nodes);

// Decides after each failed attempt whether the ranks are started again. The pause before that
// doubles each time, up to a minute. A failure that comes twice in a row at the same iteration
// would come again, and is not tried a third time. Once the run has saved since the last failure,
// that one is forgiven: restarts and pauses count anew.
class Restarts {
 public:
  explicit Restarts(const LaunchOptions& options);

  // To be called before after(), with what names the newest state of the run; "" if there is none,
  // or it is not known.
  void note_saved(const std::string& newest);

  struct Decision {
    bool again = false;
    double pause = 0;       // seconds before the next attempt
    std::string note = {};  // one line for the user; may be empty if not `again`
  };
  Decision after(const AttemptOutcome& end);

 private:
  int64_t most_;
  double first_pause_;
  double next_pause_ = first_pause_;
  int64_t number_ = 0;  // of the restarts so far, of those since the last save
  std::string saved_;   // the newest state at the last failure
  std::optional<AttemptOutcome> before_;
};

}  // namespace gantrain
