// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launch/death/verdict.h"
#include "launch/local/signals.h"
#include "launch/nodes/node_link.h"
#include "launch/nodes/node_message.h"

namespace gantrain {

// What ends a launcher's wait between attempts.
struct StopWatch {
  SignalGate& gate;
  pid_t starter;  // as in Attempt

  // Waits until one of `polled` is ready or monotonic_seconds() is `until`. Returns the signal if a
  // stop was asked for meanwhile, SIGTERM if the starter is gone.
  std::optional<int> wait(std::vector<pollfd> polled, double until) const;
};

// How an attempt ends that a stop signal ended before it began.
AttemptOutcome stopped_outcome(int signal);

// The launchers of a run with several nodes, as one: they begin each attempt together, find the
// same first cause of a failure (decide()), and start again or end together. The launcher of node 0
// decides. A launcher that is gone or silent ends the run.
class NodeCouncil {
 public:
  NodeCouncil(const World& world, const LaunchOptions& options, const Endpoint& master);

  // What node 0 says at the start of an attempt.
  struct Start {
    int64_t port = 0;             // of the store
    std::string run_folder = {};  // "" if the run has made none yet
  };
  // Waits until all nodes are ready for the attempt and, on node 0, until `not_before`. On node 0,
  // `start` is what the others are told; elsewhere it is filled in. Returns how the run ends if the
  // attempt cannot begin: a node did not come in time or does not fit, or a stop was asked for.
  std::optional<AttemptOutcome> begin(const StopWatch& stop,
                                      int64_t number,
                                      double not_before,
                                      Start& start);

  // For the supervisor, while ranks run.
  void watch(std::vector<pollfd>& polled) const { link_.watch(polled); }
  double next_deadline() const;
  std::vector<int> descriptors() const { return link_.descriptors(); }
  void exchange();
  void report(const std::vector<Death>& deaths);  // of this node
  void tell_stop(int signal);
  std::optional<int> take_stop();  // the signal by which another node was asked to stop; once
  bool take_question();            // true once if node 0 asks how far the ranks are
  const std::optional<AttemptOutcome>& verdict() const { return verdict_; }
  // True if trouble was reported and it is not known yet whose it is.
  bool awaits_verdict() const { return reported_ && !verdict_; }
  const NodePlace& here() const { return link_.here(); }

  // What all nodes do after a failed attempt: on node 0 what `restarts` decides, and elsewhere what
  // node 0 says. `end` is the verdict.
  Restarts::Decision agree(const StopWatch& stop, Restarts& restarts, bool stopped);
  // Tells the others that no rank is left here, and closes the connections.
  void finish(int code, const std::string& note);

 private:
  using Word = NodeMessage::Word;

  std::optional<AttemptOutcome> meet_others(const StopWatch& stop, double until);
  std::optional<AttemptOutcome> wait_once(const StopWatch& stop, double until);
  std::optional<AttemptOutcome> on_event(const NodeEvent& event);
  void on_running(const NodeEvent& event);
  void hear_of(const std::vector<Death>& deaths);
  AttemptOutcome refuse_all(Exit code, const std::string& text);
  AttemptOutcome stop_all(int signal);
  std::string absent_text() const;
  bool decides() const { return link_.is_node_0() || !link_.is_open(0); }

  NodeLink link_;
  Endpoint master_;
  double meeting_seconds_;

  std::vector<Death> deaths_;  // that this launcher knows of, each as of when it heard of it
  std::optional<AttemptOutcome> verdict_;
  bool reported_ = false;
  bool all_asked_ = false;
  bool asked_ = false;
  std::optional<int> stop_;
  bool stop_known_ = false;

  std::set<int64_t> ready_;           // on node 0: nodes that are ready for the next attempt
  std::optional<NodeMessage> start_;  // elsewhere: what node 0 said last
  std::optional<Restarts::Decision> decision_;
  int64_t number_ = 0;
};

}  // namespace gantrain
