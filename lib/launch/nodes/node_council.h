// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launch/death/death.h"
#include "launch/local/processes.h"
#include "launch/nodes/node_link.h"
#include "launch/where/network.h"

namespace gantrain {

struct StopWatch;

// The launchers of a run with several nodes, as one: they begin each attempt together, find the
// same first cause of a failure (decide()), and start again or end together. The launcher of node 0
// decides. A launcher that is gone or silent ends the run, unless that is elastic: then nodes come
// and go, which ElasticSupervision looks after, and another one than node 0 may lead.
class NodeCouncil {
 public:
  NodeCouncil(NodeLink link, const Endpoint& master, double meeting_seconds)
      : link_(std::move(link)), master_(master), meeting_seconds_(meeting_seconds) {}
  // The run is elastic, and begins with so many nodes at the least. A node that asks to join it is
  // told the text.
  void be_elastic(int64_t least, const std::string& invitation) {
    least_ = least;
    link_.be_elastic(invitation);
  }

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
  AttemptOutcome refuse_all(Exit code, const std::string& text);  // ends the run on all nodes

  // For the supervisor, while ranks run.
  void watch(std::vector<pollfd>& polled) const { link_.watch(polled); }
  double next_deadline() const;
  std::vector<int> descriptors() const { return link_.descriptors(); }
  void exchange();
  void report(const std::vector<Death>& deaths);  // of this node
  void tell_stop(int signal);
  // All ranks here have ended well. Those of other nodes may still fail, and then all start again
  // or end with a failure.
  void tell_done();
  bool others_work() const;        // other nodes have not all said so
  std::optional<int> take_stop();  // the signal by which another node was asked to stop; once
  // True once if node 0 asks how far the ranks are.
  bool take_question() { return std::exchange(asked_, false); }
  // Of an elastic run. What other launchers say of their ranks (kRoster to kEndRank), newcomers
  // (kHello), who leads now (kTable), and on the node that leads launchers that are lost, in the
  // order in which they came.
  std::vector<NodeEvent> take_elastic() { return std::exchange(elastic_, {}); }
  void send_to(int64_t node, const NodeMessage& message) { link_.send_to(node, message); }
  std::vector<int64_t> present() const { return link_.present(); }
  bool leads() const { return link_.leads(); }
  int64_t leader() const { return link_.leader(); }
  bool may_go_on_without_silent() const { return link_.may_go_on_without_silent(); }
  std::string own_host() const;  // at which the ranks of this node are reached
  bool leader_has_ended() const { return code_of_leader_.has_value() || lost_leader_; }
  std::optional<int> code_of_leader() const { return code_of_leader_; }  // its exit code
  void hear_of(const std::vector<Death>& deaths);
  void report_hang(const std::vector<Death>& deaths);  // of this node, which waits for no verdict
  // On node 0: the run goes on without the node that the event tells of, or it does not.
  void forget(const NodeEvent& event);
  void end_without(const NodeEvent& event);
  void end_as_minority(const NodeEvent& event);  // and leads no more: others may
  void welcome(int64_t node, const std::string& run_folder);
  const std::optional<AttemptOutcome>& verdict() const { return verdict_; }
  std::vector<Death> lost() const;  // of launchers that are gone or silent, by their first rank
  // True if there is trouble and it is not known yet whose it is.
  bool awaits_verdict() const { return !verdict_ && (reported_ || decision_time()); }
  const NodePlace& here() const { return link_.here(); }
  // Whether this launcher tells the user how the run fails, where one stream takes what all of them
  // write: node 0 does, and nodes 1 to 3 where they have lost it.
  bool speaks_for_all() const { return here().node == 0 || (lost_leader_ && here().node <= 3); }

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
  bool take_if_elastic(const NodeEvent& event);
  void on_new_leader(const NodeEvent& event);
  bool is_complete(double now);
  void on_decided(const DeathVerdict& verdict);
  void drop(int64_t node);
  void end_attempt();
  AttemptOutcome stop_all(int signal);
  std::string absent_text() const;
  bool decides() const { return link_.leads() || (!link_.all_open() && !link_.seeks_leader()); }
  std::optional<int64_t> decision_time() const;  // decides_at() where this launcher decides

  NodeLink link_;
  Endpoint master_;
  double meeting_seconds_;

  std::vector<Death> deaths_;  // that this launcher knows of, each as of when it heard of it
  std::optional<AttemptOutcome> verdict_;
  bool reported_ = false, all_asked_ = false, asked_ = false;
  std::optional<int> stop_;
  bool stop_known_ = false, lost_leader_ = false;
  bool lost_done_ = false;  // on node 0: a launcher whose ranks had ended well is gone or silent
  int64_t stop_signal_ = 0;

  std::set<int64_t> ready_;           // on node 0: nodes that are ready for the next attempt
  std::set<int64_t> done_;            // on node 0: nodes of which all ranks have ended well
  std::optional<NodeMessage> start_;  // elsewhere: what node 0 said last
  std::optional<Restarts::Decision> decision_;
  int64_t number_ = 0;

  int64_t least_ = 0;  // 0: the run is not elastic
  double enough_ = 0;  // monotonic seconds since when `least_` nodes are there; 0: they are not
  bool late_ = false;  // this node joins a run that is at work
  std::vector<NodeEvent> elastic_;
  std::optional<int> code_of_leader_;
};

}  // namespace gantrain
