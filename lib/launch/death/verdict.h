// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/death/death.h"
#include "launch/options.h"

namespace gantrain {

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
// would come again, and is not tried a third time.
class Restarts {
 public:
  explicit Restarts(const LaunchOptions& options);

  struct Decision {
    bool again = false;
    double pause = 0;       // seconds before the next attempt
    std::string note = {};  // one line for the user; may be empty if not `again`
  };
  Decision after(const AttemptOutcome& end);

 private:
  int64_t most_;
  double next_pause_;
  int64_t number_ = 0;  // of the restarts so far
  std::optional<AttemptOutcome> before_;
};

}  // namespace gantrain
