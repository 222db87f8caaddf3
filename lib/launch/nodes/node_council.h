// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/death/death.h"
#include "launch/local/processes.h"
#include "launch/options.h"
#include "launch/where/environment.h"
#include "launch/where/network.h"
#include "util/rank_info.h"

namespace gantrain {

// A launcher among those of a run.
struct NodePlace {
  int64_t node = 0;
  int64_t nodes = 1;
  int64_t ranks = 1;  // that it starts
  std::string host = {};

  std::string text() const;  // "node 1 (host)"
};

template <class Field>
void fields(NodePlace& p, Field&& field) {
  field("node", p.node);
  field("nodes", p.nodes);
  field("ranks", p.ranks);
  field("host", p.host);
}

// What one launcher tells another.
struct NodeMessage {
  enum class Word {
    kBeat,     // a sign of life
    kHello,    // to node 0, first of all: `place`
    kRefused,  // there will be no run: `text` says why
    kReady,    // to node 0: nothing of the last attempt is left here
    kStart,    // from node 0: `place`, attempt `number`, store at `port`, run folder `text`
    kReport,   // to node 0: `deaths`
    kAsk,      // from node 0: how far are your ranks?
    kVerdict,  // from node 0: `end`
    kAgain,    // from node 0: the ranks will be started again; `text` is to be printed
    kStop,     // `place`'s launcher was asked by signal `number` to save and stop
    kEnded,    // no rank is left here; exit code `number`; `text` is to be printed
    // Of elastic runs. A newcomer that kStart tells no port joins a run that is at work.
    kRoster,      // `roster` has changed
    kStartRanks,  // from node 0: start those of `slots`
    kLeft,        // to node 0: those of `slots` have ended, in the way `number`; `deaths` says how
    kEndRank,     // from node 0: those of `slots` are behind all others, end them
    kJoin,        // to node 0, instead of kHello: what does a node do to take part?
    kInvited      // from node 0: be node `number`, and do what `text` says
  };

  Word word = Word::kBeat;
  int64_t number = 0;
  int64_t port = 0;
  std::string text = {};
  NodePlace place = {};
  std::vector<Death> deaths = {};
  AttemptOutcome end = {};
  std::vector<int64_t> slots = {};  // of the node that hears of them or tells of them, from 0 on
  RosterNews roster = {};
};

// One line, with its newline.
std::string encode(const NodeMessage& message);
// Nothing if the line is not a message.
std::optional<NodeMessage> decode(std::string_view line);

// What the launchers of a job know alone: GANTRAIN_JOB_SECRET; "" if it is not set. Throws
// UserError(kEnvironment) if it is too short.
std::string job_secret(const Env& env);

// A TCP connection between two launchers. Each side first sends a line with a random number, then
// the HMAC of both lines, and reads no message before the other one has proved so that it knows the
// secret ("": all know it). Nothing here waits, so that a peer that reads nothing never blocks the
// launcher.
class NodeWire {
 public:
  NodeWire() = default;
  NodeWire(UniqueFd connected, bool is_node_0, std::string secret);

  int descriptor() const { return fd_.get(); }
  bool open() const { return static_cast<bool>(fd_); }
  bool has_unsent() const { return !unsent_.empty(); }
  bool proved() const { return proved_; }
  const std::string& objection() const { return objection_; }  // to the other side's proof

  void send(const NodeMessage& message);
  // The messages that have come. Where the other side has closed the connection, or sends what is
  // no message, it is closed here too once all messages before that have been returned.
  std::vector<NodeMessage> receive();
  // Sends what is left, at most for so many seconds, and closes.
  void finish(double seconds);

 private:
  void flush();
  void take_greeting(const std::string& line);
  void take_lines(std::vector<NodeMessage>& messages);

  UniqueFd fd_;
  bool is_node_0_ = false;
  std::string secret_;
  std::string greeting_;  // the first line of this side
  std::string other_;     // and of the other one
  std::string objection_;
  bool proved_ = false;
  std::string unsent_;
  std::string unread_;
};

// What has come from the launcher of another node.
struct NodeEvent {
  NodePlace from = {};
  NodeMessage message = {};
  std::string lost = {};  // that the launcher is gone or silent, in words for the user; else ""
};

// The launchers of a run's nodes, tied to each other: that of node 0 listens at the run's master
// address, and each of the others holds a connection to it. Each gives signs of life, so that a
// launcher that is dead, stopped or cut off is noticed.
class NodeLink {
 public:
  // Listens on `addresses` if this is node 0. Throws UserError(kEnvironment) if the port is in use.
  // Without a secret, but with a run folder, node 0 writes one there, which the others read.
  NodeLink(const World& world,
           const LaunchOptions& options,
           const std::vector<std::string>& addresses,
           const std::string& secret,
           const std::filesystem::path& run_dir);

  const NodePlace& here() const { return here_; }
  bool is_node_0() const { return here_.node == 0; }
  // On node 0: the connections to all other nodes that have come; else: that to node 0.
  bool all_open() const;
  std::vector<int64_t> absent() const;   // nodes that have not come
  std::vector<int64_t> present() const;  // those that have
  // The address at which ranks of other nodes reach those of this one; "" on node 0, and before
  // this node has come.
  std::string own_address() const;
  // On node 0: a node that comes later is told this, and may come again after forget(), which tells
  // it why it is given up unless that is "".
  void invite_by(const std::string& text) { invitation_ = text; }
  void forget(int64_t node, const std::string& why);

  // Of another node than 0: tries to connect, and introduces this launcher. False: not yet.
  bool connect(const Endpoint& master, std::string& problem);

  // For poll(): what exchange() waits for, and when it has to be called at the latest.
  void watch(std::vector<pollfd>& polled) const;
  double next_beat() const { return next_beat_; }
  // What a child of this process must close, else a dead launcher would seem to live on.
  std::vector<int> descriptors() const;

  // Takes what has come, sends what waits and gives a sign of life where one is due.
  std::vector<NodeEvent> exchange();

  // From node 0 to all other nodes, or all but one; from another node to node 0.
  void send(const NodeMessage& message, int64_t except = -1);
  void send_to(int64_t node, const NodeMessage& message);
  // Sends what is left and closes all connections. Others take that for an end in order if kEnded
  // or kRefused was sent before.
  void close();

 private:
  struct Peer {
    NodePlace place;
    NodeWire wire;
    bool came = false;
    bool ended = false;  // it has said that no rank is left there
    double heard = 0;    // monotonic seconds of its last message
    double invited = 0;  // monotonic seconds at which its number was given to one that asked
  };

  struct Newcomer {
    NodeWire wire;
    double since;
  };

  std::string introduce(UniqueFd connected);
  void accept_newcomers(double now);
  void refuse(const NodeWire& stranger);
  void greet(NodeWire wire, const NodeMessage& hello, double now);
  void invite(NodeWire wire, double now);
  std::string objection(const NodePlace& place) const;
  void take(Peer& peer, NodeMessage message, std::vector<NodeEvent>& events);
  void listen_to(Peer& peer, double now, std::vector<NodeEvent>& events);
  void beat(double now);

  NodePlace here_;
  double silence_;  // seconds after which a peer is given up
  Listener listener_;
  std::vector<Peer> peers_;  // on node 0: the other nodes from 1 on; else: node 0
  std::string secret_;
  std::string invitation_;             // "": nodes do not come later
  std::filesystem::path secret_file_;  // "": the secret is known, or there is none
  std::vector<Newcomer> newcomers_;
  std::vector<NodeEvent> news_;  // what the next exchange() returns first
  int64_t strangers_ = 0;        // connections that were refused
  int64_t next_said_ = 1;        // how many of them are said next
  int64_t closed_ = 0;           // elsewhere: tries that the other side ended without a proof
  std::string said_;             // elsewhere: why the last try failed
  double next_beat_ = 0;
  double last_look_ = 0;
};

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

// Asks the launcher that listens there what a node has to do to take part in its run. Returns the
// message kInvited. `run_dir` as in NodeLink. Throws UserError(kEnvironment) where nobody has
// answered within so many seconds, or a node cannot take part.
NodeMessage ask_to_join(const Endpoint& node_0,
                        const std::string& secret,
                        const std::filesystem::path& run_dir,
                        double seconds);

// The launchers of a run with several nodes, as one: they begin each attempt together, find the
// same first cause of a failure (decide()), and start again or end together. The launcher of node 0
// decides. A launcher that is gone or silent ends the run, unless that is elastic: then nodes
// beside node 0 come and go, which ElasticSupervision looks after.
class NodeCouncil {
 public:
  NodeCouncil(NodeLink link, const Endpoint& master, double meeting_seconds)
      : link_(std::move(link)), master_(master), meeting_seconds_(meeting_seconds) {}
  // The run is elastic, and begins with so many nodes at the least. A node that asks to join it is
  // told the text.
  void be_elastic(int64_t least, const std::string& invitation) {
    least_ = least;
    link_.invite_by(invitation);
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
  std::optional<int> take_stop();  // the signal by which another node was asked to stop; once
  bool take_question();            // true once if node 0 asks how far the ranks are
  // Of an elastic run. What other launchers say of their ranks (kRoster to kEndRank), newcomers
  // (kHello), and on node 0 launchers that are lost, in the order in which they came.
  std::vector<NodeEvent> take_elastic() { return std::exchange(elastic_, {}); }
  void send_to(int64_t node, const NodeMessage& message) { link_.send_to(node, message); }
  std::vector<int64_t> present() const { return link_.present(); }
  std::string own_host() const;  // at which the ranks of this node are reached
  bool node_0_has_ended() const { return code_of_node_0_.has_value() || lost_node_0_; }
  std::optional<int> code_of_node_0() const { return code_of_node_0_; }  // node 0's exit code
  void hear_of(const std::vector<Death>& deaths);
  void report_hang(const std::vector<Death>& deaths);  // of this node, which waits for no verdict
  // On node 0: the run goes on without the node that the event tells of, or it does not.
  void forget(const NodeEvent& event);
  void end_without(const NodeEvent& event);
  void welcome(int64_t node, const std::string& run_folder);
  const std::optional<AttemptOutcome>& verdict() const { return verdict_; }
  std::vector<Death> lost() const;  // of launchers that are gone or silent, by their first rank
  // True if trouble was reported and it is not known yet whose it is.
  bool awaits_verdict() const { return reported_ && !verdict_; }
  const NodePlace& here() const { return link_.here(); }
  // Whether this launcher tells the user how the run fails, where one stream takes what all of them
  // write: node 0 does, and nodes 1 to 3 where they have lost it.
  bool speaks_for_all() const { return here().node == 0 || (lost_node_0_ && here().node <= 3); }

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
  bool is_complete(double now);
  void on_decided(const DeathVerdict& verdict);
  void drop(int64_t node);
  void end_elastic();
  AttemptOutcome stop_all(int signal);
  std::string absent_text() const;
  bool decides() const { return link_.is_node_0() || !link_.all_open(); }

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
  bool lost_node_0_ = false;

  int64_t least_ = 0;  // 0: the run is not elastic
  double enough_ = 0;  // monotonic seconds since when `least_` nodes are there; 0: they are not
  bool late_ = false;  // this node joins a run that is at work
  std::vector<NodeEvent> elastic_;
  std::optional<int> code_of_node_0_;
};

}  // namespace gantrain
