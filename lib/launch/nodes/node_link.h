// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/local/unique_fd.h"
#include "launch/nodes/node_message.h"
#include "launch/options.h"
#include "launch/where/environment.h"
#include "launch/where/network.h"
#include "util/rank_info.h"

namespace gantrain {

// A TCP connection between two launchers. Nothing here waits, so that a peer that reads nothing
// never blocks the launcher.
class NodeWire {
 public:
  NodeWire() = default;
  explicit NodeWire(UniqueFd connected);

  int descriptor() const { return fd_.get(); }
  bool open() const { return static_cast<bool>(fd_); }
  bool has_unsent() const { return !unsent_.empty(); }

  void send(const NodeMessage& message);
  // The messages that have come. Where the other side has closed the connection, or sends what is
  // no message, it is closed here too once all messages before that have been returned.
  std::vector<NodeMessage> receive();
  // Sends what is left, at most for so many seconds, and closes.
  void finish(double seconds);

 private:
  void flush();
  void take_lines(std::vector<NodeMessage>& messages);

  UniqueFd fd_;
  std::string unsent_;
  std::string unread_;
};

// What has come from the launcher of another node.
struct NodeEvent {
  int64_t node = 0;
  NodeMessage message = {};
  std::string lost =
      {};  // not empty: that launcher is gone or silent; says so in words for the user
};

// The launchers of a run's nodes, tied to each other: that of node 0 listens at the run's master
// address, and each of the others holds a connection to it. Each gives signs of life, so that a
// launcher that is dead, stopped or cut off is noticed.
class NodeLink {
 public:
  // Listens if this is node 0. Throws UserError(kEnvironment) if the port is in use.
  NodeLink(const World& world, const LaunchOptions& options);

  const NodePlace& here() const { return here_; }
  bool is_node_0() const { return here_.node == 0; }
  bool is_open(int64_t node) const;
  bool all_open() const;                 // on node 0: to all other nodes; else: to node 0
  std::string name(int64_t node) const;  // "node 1 (host)", without the host if it is not known
  std::vector<int64_t> absent() const;   // nodes that have not come

  // Of another node than 0: tries to connect, and introduces this launcher. False: not yet.
  bool connect(const Endpoint& master, std::string& problem);

  // For poll(): what exchange() waits for, and when it has to be called at the latest.
  void watch(std::vector<pollfd>& polled) const;
  double next_beat() const { return next_beat_; }
  // What a child of this process must close, else a dead launcher would seem to live on.
  std::vector<int> descriptors() const;

  // Takes what has come, sends what waits and gives a sign of life where one is due.
  std::vector<NodeEvent> exchange();

  void send(int64_t node, const NodeMessage& message);
  void send_all(const NodeMessage& message);
  void send_others(int64_t except, const NodeMessage& message);
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
  };

  void accept_newcomers(double now);
  void greet(NodeWire wire, const NodeMessage& hello, double now);
  std::string objection(const NodePlace& place) const;
  void listen_to(Peer& peer, double now, std::vector<NodeEvent>& events);
  void beat(double now);

  NodePlace here_;
  double silence_;  // seconds after which a peer is given up
  Listener listener_;
  std::vector<Peer> peers_;  // on node 0: the other nodes from 1 on; else: node 0
  std::vector<NodeWire> newcomers_;
  std::vector<NodeEvent> refused_;
  double next_beat_ = 0;
  double last_look_ = 0;
};

}  // namespace gantrain
