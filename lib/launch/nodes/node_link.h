// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
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

// Where the launcher of a node is reached by those of others.
struct NodeAddress {
  int64_t node = 0;
  std::string host = {};
  int64_t port = 0;
};

template <class Field>
void fields(NodeAddress& a, Field&& field) {
  field("node", a.node);
  field("host", a.host);
  field("port", a.port);
}

// The nodes that take part in an elastic run. The launcher of one of them leads: at first that of
// node 0, and when it is lost that of the first node that is left.
struct NodeTable {
  int64_t leader = 0;
  std::vector<NodeAddress> nodes = {};  // by their numbers

  const NodeAddress* find(int64_t node) const;  // null: it does not take part
};

template <class Field>
void fields(NodeTable& t, Field&& field) {
  field("leader", t.leader);
  field("nodes", t.nodes);
}

// What one launcher tells another. In an elastic run "node 0" is the node that leads.
struct NodeMessage {
  enum class Word {
    kBeat,     // a sign of life
    kHello,    // to node 0, first of all: `place`; others reach it at `text`, port `port`
    kRefused,  // there will be no run: `text` says why
    kReady,    // to node 0: nothing of the last attempt is left here
    kStart,    // from node 0: `place`, attempt `number`, store at `port`, run folder `text`
    kReport,   // to node 0: `deaths`
    kAsk,      // from node 0: how far are your ranks?
    kVerdict,  // from node 0: `end`
    kAgain,    // from node 0: the ranks will be started again; `text` is to be printed
    kStop,     // `place`'s launcher was asked by signal `number` to save and stop
    kDone,     // to node 0: all ranks here have ended well
    kEnded,    // no rank is left here; exit code `number`; `text` is to be printed
    // Of elastic runs. A newcomer that kStart tells no port joins a run that is at work.
    kRoster,      // `roster` has changed
    kStartRanks,  // from node 0: start those of `slots`
    kLeft,        // to node 0: those of `slots` have ended, in the way `number`; `deaths` says how
    kEndRank,     // from node 0: those of `slots` are behind all others, end them
    kJoin,        // to node 0, instead of kHello: what does a node do to take part?
    kInvited,     // from node 0: be node `number`, and do what `text` says
    kTable,       // from node 0, `place`: who takes part is now `table`
    kFollow,      // to who is to lead, instead of kHello: `place` has lost who led
    kReplaced     // to who led, and was silent: `place` leads now
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
  NodeTable table = {};
};

// One line, with its newline.
std::string encode(const NodeMessage& message);
// Nothing if the line is not a message.
std::optional<NodeMessage> decode(std::string_view line);

constexpr size_t kShortestSecret = 16;  // characters

// What the launchers of a job know alone: GANTRAIN_JOB_SECRET; "" if it is not set. Throws
// UserError(kEnvironment) if it is too short.
std::string job_secret(const Env& env);
// The secret in that file; "" if it is not there, or others than this user may read or write it.
std::string secret_in(const std::filesystem::path& file);
// Makes a new one there, unless a run is at work in the folder, whose secret it is.
std::string new_secret_in(const std::filesystem::path& file);

// A TCP connection between two launchers. Each side first sends a line with a random number, then
// the HMAC of both lines, and reads no message before the other one has proved so that it knows the
// secret ("": all know it). Nothing here waits, so that a peer that reads nothing never blocks the
// launcher.
class NodeWire {
 public:
  static constexpr const char* kOtherSecret =
      "it has another job secret than this node, or none";  // an objection()

  NodeWire() = default;
  // `accepts`: this side has listened, as node 0 does.
  NodeWire(UniqueFd connected, bool accepts, std::string secret);

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
  bool accepts_ = false;
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
  bool silent = false;    // it is silent, and may be at work beyond a network that is cut
};

// What comes of a try to connect to a launcher, which takes half a second at most.
enum class Door { kOpens, kRefuses, kDoesNotAnswer };
Door knock(const NodeAddress& at, UniqueFd* connected = nullptr);

// A launcher, or a stranger, that has connected and is not known yet.
struct Newcomer {
  NodeWire wire;
  double since = 0;  // monotonic seconds
  std::optional<NodeMessage> said = {};
};

// In an elastic run each launcher listens, and knows where the others do. When the one that leads
// is lost, each of those that are left finds out what has become of it: its port refuses (it is
// dead), or connects and says nothing (it is frozen), or does not answer (its machine is down, or
// the network is cut). Then the first node that is left leads, and the others connect to it. So
// that the two sides of a cut network never both go on, those who go on must be more than half of
// the nodes that are not known to be dead or frozen, or half of them with the first of these; the
// one that led counts as the first.
class Succession {
 public:
  // Where this launcher stands, and how the one that led was lost.
  struct Site {
    NodePlace here;
    NodeAddress address;
    NodeTable table;  // of those who took part before
    double silence;   // seconds after which one that says nothing is given up
    std::string secret;
  };
  struct Loss {
    std::string text;     // in words for the user
    bool closed = false;  // the connection was closed; else there was silence
    double since = 0;     // monotonic seconds
  };
  Succession(Site site, Loss loss) : site_(std::move(site)), loss_(std::move(loss)) {}

  enum class Step { kSeeks, kGivesUp, kFollows, kLeads };
  // The next step. Followers are taken out of `newcomers`.
  Step step(double now, std::vector<Newcomer>& newcomers);
  bool is_settled() const { return settled_; }  // what has become of the one that led is known
  const Loss& loss() const { return loss_; }
  NodeWire& wire() { return wire_; }  // with kFollows, to the one that leads
  const NodeWire& wire() const { return wire_; }
  const std::vector<NodeMessage>& said() const { return said_; }  // by it, the table first
  std::vector<Newcomer>& followers() { return followers_; }       // with kLeads

 private:
  Step settle(double now);
  int64_t first_left() const;
  Step follow(const NodeAddress& next, double now);
  Step await_followers(double now, std::vector<Newcomer>& newcomers);
  void look_at(const NodeAddress& one, double now, bool tries);
  bool is_known(int64_t node) const;
  bool may_lead() const;
  Step give_up(const std::string& why);

  Site site_;
  Loss loss_;
  bool settled_ = false;
  NodeWire wire_;                       // to the one that led, then to the one that is to lead
  double asked_ = 0;                    // monotonic seconds at which it was connected
  bool followed_ = false;               // kFollow was sent
  double next_try_ = 0;                 // monotonic seconds
  std::set<int64_t> gone_;              // nodes that are dead or frozen
  std::set<int64_t> silent_;            // those that do not answer
  std::map<int64_t, Newcomer> probes_;  // of the node that is to lead
  std::vector<NodeMessage> said_;
  std::vector<Newcomer> followers_;
};

// Writes the file .nodes of a run folder, which tells of the run at work there; without nodes, that
// none is. Warns where that fails.
void write_table(const std::filesystem::path& run_dir, const NodeTable& table);
// Finds the launcher that leads the run at work in that folder, by .nodes. Where it is gone but
// others of the nodes live, it waits until one of these leads. Nothing where no run is at work.
std::optional<NodeAddress> find_leader(const std::filesystem::path& run_dir,
                                       const std::string& secret);

// The launchers of a run's nodes, tied to each other: that of node 0 listens at the run's master
// address, and each of the others holds a connection to it. Each gives signs of life, so that a
// launcher that is dead, stopped or cut off is noticed.
class NodeLink {
 public:
  // Listens on `addresses` if this is node 0, and no `leader` is given, which is that of a run at
  // work. Throws UserError(kEnvironment) if the port is in use. Without a secret, but with a run
  // folder, node 0 writes one there, which the others read.
  NodeLink(const World& world,
           const LaunchOptions& options,
           const std::vector<std::string>& addresses,
           const std::string& secret,
           const std::filesystem::path& run_dir,
           const std::optional<NodeAddress>& leader = {});

  const NodePlace& here() const { return here_; }
  int64_t leader() const { return leader_; }  // the node that leads: 0 where the run is not elastic
  bool leads() const { return here_.node == leader_; }
  // On the node that leads: the connections to all other nodes that have come; else: that to it.
  bool all_open() const;
  std::vector<int64_t> absent() const;   // nodes that have not come
  std::vector<int64_t> present() const;  // those that have
  // The address at which ranks of other nodes reach those of this one; "" on node 0 unless that has
  // come as others do, and before this node has come.
  const std::string& own_address() const { return address_; }
  // Nodes may come later, and are told this where they ask; they may come again after forget(),
  // which tells them why they are given up unless that is "".
  void be_elastic(const std::string& invitation);
  void forget(int64_t node, const std::string& why);
  // Of an elastic run: whether another launcher leads on when that one is lost, or all end. Where
  // one does, exchange() returns a message kTable with its `place`, from the one that was lost, of
  // which `text` tells. The new one then has connections to those who have followed it: present().
  void pass_on_lead(bool does) { passes_on_ = does; }
  void resign() { leader_ = -1; }
  bool seeks_leader() const { return succession_.has_value(); }
  bool may_go_on_without_silent() const;  // on the node that leads: those who are not silent

  // Of a node that does not lead: tries to connect, and introduces this launcher. False: not yet.
  bool connect(const Endpoint& master, std::string& problem);

  // For poll(): what exchange() waits for, and when it has to be called at the latest.
  void watch(std::vector<pollfd>& polled) const;
  double next_beat() const;
  // What a child of this process must close, else a dead launcher would seem to live on.
  std::vector<int> descriptors() const;

  // Takes what has come, sends what waits and gives a sign of life where one is due.
  std::vector<NodeEvent> exchange();

  // From the node that leads to all other nodes, or all but one; from another one to that.
  void send(const NodeMessage& message, int64_t except = -1);
  void send_to(int64_t node, const NodeMessage& message);
  // Sends what is left and closes all connections. Others take that for an end in order if kEnded
  // or kRefused was sent before. The run is over, or goes on without this node.
  void close();

 private:
  struct Peer {
    NodePlace place;
    NodeWire wire;
    bool came = false;
    bool ended = false;  // it has said that no rank is left there
    double heard = 0;    // monotonic seconds of its last message
    double invited = 0;  // monotonic seconds at which its number was given to one that asked
    NodeAddress address = {};
  };

  std::string introduce(UniqueFd connected);
  void accept_newcomers(double now);
  void refuse(const NodeWire& stranger);
  bool has_to_wait(const Newcomer& one) const;
  bool answer(Newcomer& one, double now);
  void greet(NodeWire wire, const NodeMessage& hello, double now);
  void invite(NodeWire wire, double now);
  std::string objection(const NodePlace& place) const;
  void take(Peer& peer, NodeMessage message, std::vector<NodeEvent>& events);
  void listen_to(Peer& peer, double now, std::vector<NodeEvent>& events);
  void beat(double now);
  static Peer peer_of(NodeWire wire, const NodeMessage& hello, double now);
  Peer* find(int64_t node);
  std::vector<Peer> all_others() const;
  void tell_table();

  void succeed(double now, std::vector<NodeEvent>& events);
  void replace_leader(std::vector<NodeEvent>& events, const NodePlace& by);

  NodePlace here_;
  int64_t leader_;
  double silence_;  // seconds after which a peer is given up
  Listener listener_;
  std::string address_;      // "" on the node that led from the beginning
  std::string master_host_;  // there
  std::vector<Peer> peers_;  // on the node that leads: the other nodes; else: that one
  std::string secret_;
  std::string invitation_;
  bool elastic_ = false;
  bool passes_on_ = false;
  NodeTable table_;
  std::optional<Succession> succession_;
  std::filesystem::path run_dir_;
  std::filesystem::path secret_file_;  // "": the secret is known, or there is none
  std::vector<Newcomer> newcomers_;
  std::vector<NodeEvent> news_;  // what the next exchange() returns first
  int64_t strangers_ = 0;        // connections that were refused
  int64_t next_said_ = 1;        // how many of them are said next
  int64_t closed_ = 0;           // elsewhere: tries that the other side ended without a proof
  std::string said_;             // elsewhere: why the last try failed
  double next_beat_ = 0, last_look_ = 0;
};

// Asks the launcher that listens there what a node has to do to take part in its run. Returns the
// message kInvited. `run_dir` as in NodeLink. Throws UserError(kEnvironment) where nobody has
// answered within so many seconds, or a node cannot take part.
NodeMessage ask_to_join(const Endpoint& node_0,
                        const std::string& secret,
                        const std::filesystem::path& run_dir,
                        double seconds);

}  // namespace gantrain
