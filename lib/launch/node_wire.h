// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/node_message.h"
#include "launch/port.h"
#include "launch/unique_fd.h"
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

// A connection that has come, as a wire; nothing if there is none. It never waits.
std::optional<NodeWire> accept_wire(const Listener& listener);

// Tries once to connect to `master`, for at most so many seconds. Returns nothing and says why in
// `problem` if that fails.
std::optional<NodeWire> connect_wire(const Endpoint& master, double seconds, std::string& problem);

}  // namespace gantrain
