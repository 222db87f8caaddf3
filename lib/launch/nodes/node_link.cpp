// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

#include "config/schema.h"
#include "launch/nodes/node_council.h"
#include "util/error.h"
#include "util/system.h"

namespace gantrain {

namespace {

constexpr int kVersion = 2;

// A message on its way. The numbers come first, and say what else there is.
struct Envelope {
  int version = kVersion;
  int word = 0;
  NodeMessage message;
};

template <class Field>
void fields(Envelope& e, Field&& field) {
  using Word = NodeMessage::Word;
  field("gantrain", e.version);
  field("word", e.word);
  if (e.version != kVersion || e.word < 0 || e.word > static_cast<int>(Word::kEnded))
    throw std::logic_error("no message of a launcher");
  NodeMessage& m = e.message;
  m.word = static_cast<Word>(e.word);
  if (m.word == Word::kBeat) return;
  field("number", m.number);
  field("port", m.port);
  field("text", m.text);
  field("place", m.place);
  if (m.word == Word::kReport) field("deaths", m.deaths);
  if (m.word == Word::kVerdict) field("end", m.end);
}

constexpr size_t kLongestMessage = 1 << 20;  // bytes without a newline: no launcher sends that

using Word = NodeMessage::Word;

constexpr double kMostSilence = 10;    // seconds
constexpr double kLongestBeat = 1;     // seconds between two signs of life
constexpr int kBeatsPerSilence = 5;    // so that a late one or two do no harm
constexpr double kConnectSeconds = 2;  // of one attempt
constexpr double kFinishSeconds = 2;

double silence_of(const LaunchOptions& options) {
  const double hang = options.hang_timeout.seconds;
  return hang > 0 ? std::min(hang, kMostSilence) : kMostSilence;
}

std::string sizes_of(const NodePlace& p) { return sizes_text(p.ranks * p.nodes, p.nodes); }

}  // namespace

std::string NodePlace::text() const {
  return host.empty() ? fmt::format("node {}", node) : fmt::format("node {} ({})", node, host);
}

std::string encode(const NodeMessage& message) {
  const Json json =
      message_of(Envelope{.word = static_cast<int>(message.word), .message = message});
  // What ranks and users write need not be UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<NodeMessage> decode(std::string_view line) {
  try {
    return message_from<Envelope>(Json::parse(line)).message;
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const std::logic_error&) {
    return std::nullopt;
  }
}

NodeWire::NodeWire(UniqueFd connected) : fd_(std::move(connected)) {
  set_nonblocking(fd_.get());
  const int yes = 1;
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

void NodeWire::send(const NodeMessage& message) {
  if (!open()) return;
  unsent_ += encode(message);
  flush();
}

void NodeWire::flush() {
  while (open() && !unsent_.empty()) {
    const ssize_t size = ::send(fd_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (size < 0) {  // what the other side said last may still be read
      unsent_.clear();
      return;
    }
    unsent_.erase(0, static_cast<size_t>(size));
  }
}

void NodeWire::take_lines(std::vector<NodeMessage>& messages) {
  size_t begin = 0;
  for (size_t end = 0; (end = unread_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const auto message = decode(std::string_view(unread_).substr(begin, end - begin));
    if (!message) {
      fd_.close();
      return;
    }
    messages.push_back(*message);
  }
  unread_.erase(0, begin);
  const bool foreign = !unread_.empty() && unread_.front() != '{';  // a rank of another launcher
  if (foreign || unread_.size() > kLongestMessage) fd_.close();
}

std::vector<NodeMessage> NodeWire::receive() {
  std::vector<NodeMessage> messages;
  flush();
  if (!open()) return messages;
  const bool more = read_from(fd_.get(), unread_, 2 * kLongestMessage);
  take_lines(messages);
  if (!more) fd_.close();
  return messages;
}

void NodeWire::finish(double seconds) {
  const double end = monotonic_seconds() + seconds;
  flush();
  while (open() && has_unsent() && wait_for(fd_.get(), POLLOUT, end)) flush();
  // With unread bytes left, close() would make the kernel drop what the other side has not read.
  if (open()) ::shutdown(fd_.get(), SHUT_WR);
  receive();
  fd_.close();
}

NodeLink::NodeLink(const World& world, const LaunchOptions& options)
    : here_{world.ranks.node_rank, world.ranks.nodes, world.ranks.local_world, host_name()},
      silence_(silence_of(options)) {
  if (!is_node_0()) {
    peers_.resize(1);
    return;
  }
  listener_ = listen_on(world.master.port, false);
  set_nonblocking(listener_.socket.get());
  peers_.resize(static_cast<size_t>(here_.nodes - 1));
  for (size_t i = 0; i < peers_.size(); ++i) peers_[i].place.node = static_cast<int64_t>(i) + 1;
}

bool NodeLink::all_open() const {
  return std::ranges::all_of(peers_, [](const Peer& p) { return p.wire.open(); });
}

std::vector<int64_t> NodeLink::absent() const {
  std::vector<int64_t> nodes;
  for (const Peer& peer : peers_) {
    if (!peer.came) nodes.push_back(peer.place.node);
  }
  return nodes;
}

bool NodeLink::connect(const Endpoint& master, std::string& problem) {
  UniqueFd connected = connect_to(master, kConnectSeconds, problem);
  if (!connected) return false;
  Peer& peer = peers_[0];
  peer.wire = NodeWire(std::move(connected));
  peer.came = true;
  peer.place.host = master.host;
  peer.heard = monotonic_seconds();
  peer.wire.send({.word = Word::kHello, .place = here_});
  return true;
}

void NodeLink::watch(std::vector<pollfd>& polled) const {
  if (listener_.socket) polled.push_back({listener_.socket.get(), POLLIN, 0});
  const auto add = [&](const NodeWire& wire) {
    const short events = static_cast<short>(wire.has_unsent() ? POLLIN | POLLOUT : POLLIN);
    if (wire.open()) polled.push_back({wire.descriptor(), events, 0});
  };
  for (const Peer& peer : peers_) add(peer.wire);
  for (const NodeWire& wire : newcomers_) add(wire);
}

std::vector<int> NodeLink::descriptors() const {
  std::vector<pollfd> polled;
  watch(polled);
  std::vector<int> all;
  for (const pollfd& one : polled) all.push_back(one.fd);
  return all;
}

// Why a launcher that introduces itself cannot take part; "" if it can.
std::string NodeLink::objection(const NodePlace& place) const {
  if (place.nodes != here_.nodes || place.ranks != here_.ranks)
    return disagreement_text(sizes_of(here_), here_.text(), sizes_of(place), place.text());
  if (place.node < 0 || place.node >= here_.nodes)
    return fmt::format("node {}: nodes are numbered from 0 to {}", place.node, here_.nodes - 1);
  const bool first = place.node == 0;
  if (first || peers_[static_cast<size_t>(place.node) - 1].came) {
    return started_twice_text(
        fmt::format("node {}", place.node),
        first ? here_.host : peers_[static_cast<size_t>(place.node) - 1].place.host,
        place.host);
  }
  return "";
}

void NodeLink::greet(NodeWire wire, const NodeMessage& hello, double now) {
  const std::string why = objection(hello.place);
  if (!why.empty()) {
    NodeEvent event{.from = hello.place,
                    .message = {.word = Word::kRefused, .text = why, .place = hello.place}};
    wire.send(event.message);
    wire.finish(0);
    refused_.push_back(event);
    return;
  }
  Peer& peer = peers_[static_cast<size_t>(hello.place.node) - 1];
  peer.place = hello.place;
  peer.wire = std::move(wire);
  peer.came = true;
  peer.heard = now;
}

void NodeLink::accept_newcomers(double now) {
  if (!listener_.socket) return;
  while (UniqueFd connected = accept_from(listener_)) newcomers_.emplace_back(std::move(connected));
  std::vector<NodeWire> waiting;
  for (NodeWire& wire : newcomers_) {
    const std::vector<NodeMessage> said = wire.receive();
    if (!said.empty() && said.front().word == Word::kHello) {
      greet(std::move(wire), said.front(), now);
    } else if (said.empty() && wire.open()) {
      waiting.push_back(std::move(wire));
    }
  }
  newcomers_ = std::move(waiting);
}

void NodeLink::listen_to(Peer& peer, double now, std::vector<NodeEvent>& events) {
  if (!peer.wire.open()) return;
  for (NodeMessage& message : peer.wire.receive()) {
    peer.heard = now;
    if (message.word == Word::kBeat) continue;
    if (message.word == Word::kStart && peer.place.node == 0) peer.place = message.place;
    peer.ended = peer.ended || message.word == Word::kEnded || message.word == Word::kRefused;
    events.push_back({.from = peer.place, .message = std::move(message)});
  }
  if (peer.ended) return;
  std::string lost;
  if (!peer.wire.open()) {
    lost =
        fmt::format("{}: its launcher is gone (killed, or its machine is down)", peer.place.text());
  } else if (now - peer.heard > silence_) {
    lost = fmt::format(
        "{}: its launcher has given no sign of life for {} (it is stopped, its machine is down, "
        "or the network to it is cut)",
        peer.place.text(),
        short_duration(silence_));
    peer.ended = true;  // it is told how the run ended, should it come back
  }
  if (!lost.empty()) events.push_back({.from = peer.place, .lost = lost});
}

void NodeLink::beat(double now) {
  if (now < next_beat_) return;
  next_beat_ = now + std::min(kLongestBeat, silence_ / kBeatsPerSilence);
  send({.word = Word::kBeat});
}

std::vector<NodeEvent> NodeLink::exchange() {
  const double now = monotonic_seconds();
  // If this process was stopped itself, or the machine slept, the silence of others says nothing.
  if (now - last_look_ > silence_ / 2) {
    for (Peer& peer : peers_) peer.heard = now;
  }
  last_look_ = now;
  accept_newcomers(now);
  std::vector<NodeEvent> events = std::move(refused_);
  refused_.clear();
  for (Peer& peer : peers_) listen_to(peer, now, events);
  beat(now);
  return events;
}

void NodeLink::send(const NodeMessage& message, int64_t except) {
  for (Peer& peer : peers_) {
    if (peer.place.node != except) peer.wire.send(message);
  }
}

void NodeLink::close() {
  for (Peer& peer : peers_) peer.wire.finish(kFinishSeconds);
  newcomers_.clear();
  listener_.socket.close();
}

}  // namespace gantrain
