// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/file.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include "config/schema.h"
#include "launch/nodes/node_council.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

constexpr int kVersion = 3;
constexpr int64_t kMostInPlace = 1 << 20;  // also of ranks, so that their product is a number

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
  if (e.version != kVersion || e.word < 0 || e.word > static_cast<int>(Word::kInvited))
    throw std::logic_error("no message of a launcher");
  NodeMessage& m = e.message;
  m.word = static_cast<Word>(e.word);
  if (m.word == Word::kBeat) return;
  field("number", m.number);
  field("port", m.port);
  field("text", m.text);
  field("place", m.place);
  for (const int64_t number : {m.place.node, m.place.nodes, m.place.ranks}) {
    if (number < 0 || number > kMostInPlace) throw std::logic_error("no place of a launcher");
  }
  const bool left = m.word == Word::kLeft;
  if (left || m.word == Word::kReport) field("deaths", m.deaths);
  if (m.word == Word::kVerdict) field("end", m.end);
  if (left || m.word == Word::kStartRanks || m.word == Word::kEndRank) field("slots", m.slots);
  if (m.word == Word::kRoster) field("roster", m.roster);
}

constexpr size_t kLongestMessage = 1 << 20;  // bytes without a newline: no launcher sends that

using Word = NodeMessage::Word;

constexpr double kMostSilence = 10;    // seconds
constexpr double kLongestBeat = 1;     // seconds between two signs of life
constexpr int kBeatsPerSilence = 5;    // so that a late one or two do no harm
constexpr double kConnectSeconds = 2;  // of one attempt
constexpr double kFinishSeconds = 2;
constexpr double kInvitation = 60;  // seconds for which a number is kept for a node

constexpr std::string_view kGreeting = "gantrain-node ";  // the version and a random number follow
const std::string kGreetingOfThisVersion = fmt::format("{}{} ", kGreeting, kVersion);
constexpr size_t kLongestGreeting = 64;  // bytes of a line; a proof has so many
constexpr size_t kSpareNewcomers = 64;   // beside as many as there are nodes
constexpr int64_t kMostClosed = 3;       // tries before a node gives up
constexpr size_t kShortestSecret = 16;
constexpr const char* kOtherSecret = "it has another job secret than this node, or none";

// The secret in the file; "" if it is not there, or others than this user may read or write it.
std::string secret_in(const fs::path& file) {
  const std::string text = trim(content_of(file, kMostOfText).value_or(""));
  std::error_code error;
  const auto others = fs::perms::group_all | fs::perms::others_all;
  const bool own = (fs::status(file, error).permissions() & others) == fs::perms::none &&
                   shared_with_others(file).empty();
  return own && text.size() >= kShortestSecret ? text : "";
}

std::string new_secret_in(const fs::path& file) {
  const UniqueFd lock(open_regular(file.parent_path() / ".lock", O_RDWR | O_CREAT));
  // A run that is at work there, or still ending, keeps its own.
  const bool busy = ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  std::string secret = busy ? secret_in(file) : "";
  if (!secret.empty()) return secret;
  secret = random_hex(32);
  AtomicFile out(file, 0600);
  out.write(secret + "\n");
  out.commit();
  return secret;
}

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
    return message_from<Envelope>(parse_foreign(line)).message;
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const std::logic_error&) {
    return std::nullopt;
  }
}

std::string job_secret(const Env& env) {
  const std::string secret = variable(env, "GANTRAIN_JOB_SECRET");
  if (secret.empty() || secret.size() >= kShortestSecret) return secret;
  fail(Exit::kEnvironment,
       "GANTRAIN_JOB_SECRET has {} characters: give all nodes the same {} or more",
       secret.size(),
       kShortestSecret);
}

NodeWire::NodeWire(UniqueFd connected, bool is_node_0, std::string secret)
    : fd_(std::move(connected)),
      is_node_0_(is_node_0),
      secret_(std::move(secret)),
      greeting_(kGreetingOfThisVersion + random_hex(16)),
      unsent_(greeting_ + "\n") {
  set_nonblocking(fd_.get());
  const int yes = 1;
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  flush();
}

void NodeWire::take_greeting(const std::string& line) {
  const auto proof = [this](const char* side, const std::string& own, const std::string& other) {
    return hmac_sha256(secret_, fmt::format("{}\n{}\n{}", side, own, other));
  };
  if (!other_.empty()) {
    proved_ = line == proof(is_node_0_ ? "other node" : "node 0", other_, greeting_);
    if (!proved_) objection_ = kOtherSecret;
  } else if (line.size() == greeting_.size() && starts_with(line, kGreetingOfThisVersion)) {
    other_ = line;
    unsent_ += proof(is_node_0_ ? "node 0" : "other node", greeting_, other_) + "\n";
    return flush();
  } else if (starts_with(line, kGreeting)) {
    objection_ = "it is another version of gantrain";
  }
  if (!proved_) fd_.close();
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
  const bool more = read_from(fd_.get(), unread_, proved_ ? 2 * kLongestMessage : 1);
  for (size_t end = 0; open() && !proved_ && (end = unread_.find('\n')) != std::string::npos;) {
    const std::string line = unread_.substr(0, end);
    unread_.erase(0, end + 1);
    take_greeting(line);
  }
  if (!proved_ && unread_.size() > kLongestGreeting) fd_.close();
  if (proved_) take_lines(messages);
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

NodeLink::NodeLink(const World& world,
                   const LaunchOptions& options,
                   const std::vector<std::string>& addresses,
                   const std::string& secret,
                   const fs::path& run_dir)
    : here_{world.ranks.node_rank, world.ranks.nodes, world.ranks.local_world, host_name()},
      silence_(silence_of(options)),
      secret_(secret) {
  if (secret.empty() && !run_dir.empty()) secret_file_ = run_dir / ".job-secret";
  if (!is_node_0()) {
    peers_.resize(1);
    return;
  }
  listener_ = listen_on(world.master.port, addresses);
  set_nonblocking(listener_.socket.get());
  if (!secret_file_.empty()) secret_ = new_secret_in(secret_file_);
  peers_.resize(static_cast<size_t>(here_.nodes - 1));
  for (size_t i = 0; i < peers_.size(); ++i) peers_[i].place.node = static_cast<int64_t>(i) + 1;
}

bool NodeLink::all_open() const {
  return std::ranges::all_of(peers_, [](const Peer& p) { return !p.came || p.wire.open(); });
}

std::vector<int64_t> NodeLink::absent() const {
  std::vector<int64_t> nodes;
  for (const Peer& peer : peers_) {
    if (!peer.came) nodes.push_back(peer.place.node);
  }
  return nodes;
}

std::vector<int64_t> NodeLink::present() const {
  std::vector<int64_t> nodes;
  for (const Peer& peer : peers_) {
    if (peer.came) nodes.push_back(peer.place.node);
  }
  return nodes;
}

std::string NodeLink::own_address() const {
  return is_node_0() ? "" : address_of_socket(peers_.front().wire.descriptor());
}

void NodeLink::forget(int64_t node, const std::string& why) {
  Peer& peer = peers_[static_cast<size_t>(node) - 1];
  constexpr int64_t kCode = code_of(Exit::kRankDied);
  if (!why.empty()) peer.wire.send({.word = Word::kRefused, .number = kCode, .text = why});
  peer.wire.finish(0);
  peer = {.place = {.node = node}, .wire = {}};
}

// Introduces this launcher to who listens there; "" or why that failed.
std::string NodeLink::introduce(UniqueFd connected) {
  Peer& peer = peers_[0];
  // Each time anew: node 0 replaces the secret of an earlier job.
  if (!secret_file_.empty() && (secret_ = secret_in(secret_file_)).empty()) {
    return fmt::format(
        "{}, which node 0 writes, is not here for this user alone (give all nodes the same "
        "GANTRAIN_JOB_SECRET if they do not share the folder)",
        secret_file_.string());
  }
  NodeWire wire(std::move(connected), false, secret_);
  const double until = monotonic_seconds() + kConnectSeconds;
  std::vector<NodeMessage> said;  // with the proof
  while (wire.open() && !wire.proved() && wait_for(wire.descriptor(), POLLIN, until))
    said = wire.receive();
  if (wire.open() && !wire.proved()) return "what listens there does not answer";
  if (wire.objection() == kOtherSecret)
    return fmt::format("refused what listens there: {} (GANTRAIN_JOB_SECRET)", kOtherSecret);
  peer.heard = monotonic_seconds();
  peer.came = wire.proved() || ++closed_ == kMostClosed;
  if (!wire.proved()) {
    if (peer.came) news_.push_back({.from = peer.place, .lost = "it closes the connection"});
    return "what listens there closes the connection";
  }
  peer.wire = std::move(wire);
  const bool asks = here_.node < 0;  // which node it is to be
  peer.wire.send({.word = asks ? Word::kJoin : Word::kHello, .place = asks ? NodePlace() : here_});
  for (NodeMessage& message : said) take(peer, std::move(message), news_);
  return "";
}

bool NodeLink::connect(const Endpoint& master, std::string& problem) {
  UniqueFd connected = connect_to(master, kConnectSeconds, problem);
  if (!connected) return false;
  peers_[0].place.host = master.host;
  problem = introduce(std::move(connected));
  if (problem != said_ && !peers_[0].came) warn("{}:{}: {}", master.host, master.port, problem);
  said_ = problem;
  return peers_[0].came;
}

void NodeLink::watch(std::vector<pollfd>& polled) const {
  if (listener_.socket) polled.push_back({listener_.socket.get(), POLLIN, 0});
  const auto add = [&](const NodeWire& wire) {
    const short events = static_cast<short>(wire.has_unsent() ? POLLIN | POLLOUT : POLLIN);
    if (wire.open()) polled.push_back({wire.descriptor(), events, 0});
  };
  for (const Peer& peer : peers_) add(peer.wire);
  for (const Newcomer& one : newcomers_) add(one.wire);
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
    news_.push_back(event);
    return;
  }
  Peer& peer = peers_[static_cast<size_t>(hello.place.node) - 1];
  peer.place = hello.place;
  peer.wire = std::move(wire);
  peer.came = true;
  peer.heard = now;
  news_.push_back({.from = peer.place, .message = {.word = Word::kHello}});
}

// Tells a node that asks which one it is to be, and what it has to do.
void NodeLink::invite(NodeWire wire, double now) {
  const auto is_free = [now](const Peer& p) { return !p.came && now - p.invited > kInvitation; };
  auto free = std::ranges::find_if(peers_, is_free);
  if (free == peers_.end()) free = std::ranges::find(peers_, false, &Peer::came);
  NodeMessage answer{.word = Word::kRefused};
  if (invitation_.empty()) {
    answer.text = "this run's nodes do not change: it was not started with --nnodes MIN:MAX";
  } else if (free == peers_.end()) {
    answer.text = fmt::format("all {} are there (--nnodes)", counted(here_.nodes, "node"));
  } else {
    free->invited = now;
    answer = {.word = Word::kInvited, .number = free->place.node, .text = invitation_};
  }
  wire.send(answer);
  wire.finish(0);
}

// Says of the first, the tenth, the hundredth ... stranger.
void NodeLink::refuse(const NodeWire& stranger) {
  if (++strangers_ < next_said_) return;
  next_said_ *= 10;
  warn("port {}: refused {}: {}",
       listener_.port,
       counted(strangers_, "connection"),
       stranger.objection().empty() ? "it is no launcher of this job" : stranger.objection());
}

void NodeLink::accept_newcomers(double now) {
  if (!listener_.socket) return;
  const size_t most = kSpareNewcomers + peers_.size();
  for (size_t i = 0; i < most; ++i) {
    UniqueFd connected = accept_from(listener_);
    if (!connected) break;
    newcomers_.push_back({NodeWire(std::move(connected), true, secret_), now});
  }
  std::vector<Newcomer> waiting;
  for (Newcomer& one : newcomers_) {
    const std::vector<NodeMessage> said = one.wire.receive();
    if (!said.empty() && said.front().word == Word::kHello) {
      greet(std::move(one.wire), said.front(), now);
    } else if (!said.empty() && said.front().word == Word::kJoin) {
      invite(std::move(one.wire), now);
    } else if (said.empty() && one.wire.open() && now - one.since < silence_) {
      waiting.push_back(std::move(one));
    } else {
      refuse(one.wire);
    }
  }
  // A launcher is done within a round trip, so those that have waited longest are no launchers.
  for (; waiting.size() > most; waiting.erase(waiting.begin())) refuse(waiting.front().wire);
  newcomers_ = std::move(waiting);
}

void NodeLink::take(Peer& peer, NodeMessage message, std::vector<NodeEvent>& events) {
  if (message.word == Word::kBeat) return;
  if (message.word == Word::kStart && peer.place.node == 0) peer.place = message.place;
  peer.ended = peer.ended || message.word == Word::kEnded || message.word == Word::kRefused;
  events.push_back({.from = peer.place, .message = std::move(message)});
}

void NodeLink::listen_to(Peer& peer, double now, std::vector<NodeEvent>& events) {
  if (!peer.wire.open()) return;
  for (NodeMessage& message : peer.wire.receive()) {
    peer.heard = now;
    take(peer, std::move(message), events);
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
  std::vector<NodeEvent> events = std::exchange(news_, {});
  for (Peer& peer : peers_) listen_to(peer, now, events);
  beat(now);
  return events;
}

void NodeLink::send(const NodeMessage& message, int64_t except) {
  for (Peer& peer : peers_) {
    if (peer.place.node != except) peer.wire.send(message);
  }
}

void NodeLink::send_to(int64_t node, const NodeMessage& message) {
  for (Peer& peer : peers_) {
    if (peer.place.node == node) peer.wire.send(message);
  }
}

void NodeLink::close() {
  for (Peer& peer : peers_) peer.wire.finish(kFinishSeconds);
  newcomers_.clear();
  listener_.socket.close();
}

}  // namespace gantrain
