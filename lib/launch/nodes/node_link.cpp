// SPDX-License-Identifier: Apache-2.0
#include "launch/nodes/node_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "config/schema.h"
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

using Word = NodeMessage::Word;

constexpr double kMostSilence = 10;         // seconds
constexpr double kLongestBeat = 1;          // seconds between two signs of life
constexpr int kBeatsPerSilence = 5;         // so that a late one or two do no harm
constexpr double kConnectSeconds = 2;       // of one attempt
constexpr double kLookWhileSeeking = 0.01;  // seconds between two steps to another leader
constexpr double kFinishSeconds = 2;
constexpr double kInvitation = 60;      // seconds for which a number is kept for a node
constexpr size_t kSpareNewcomers = 64;  // beside as many as there are nodes
constexpr int64_t kMostClosed = 3;      // tries before a node gives up

double silence_of(const LaunchOptions& options) {
  const double hang = options.hang_timeout.seconds;
  return hang > 0 ? std::min(hang, kMostSilence) : kMostSilence;
}

std::string sizes_of(const NodePlace& p) { return sizes_text(p.ranks * p.nodes, p.nodes); }

}  // namespace

NodeLink::NodeLink(const World& world,
                   const LaunchOptions& options,
                   const std::vector<std::string>& addresses,
                   const std::string& secret,
                   const fs::path& run_dir,
                   const std::optional<NodeAddress>& leader)
    : here_{world.ranks.node_rank, world.ranks.nodes, world.ranks.local_world, host_name()},
      leader_(leader ? leader->node : 0),
      silence_(silence_of(options)),
      secret_(secret),
      run_dir_(run_dir) {
  if (secret.empty() && !run_dir.empty()) secret_file_ = run_dir / ".job-secret";
  if (!leads()) {
    peers_.resize(1);
    peers_.front().place.node = leader_;
    return;
  }
  listener_ = listen_on(world.master.port, addresses);
  set_nonblocking(listener_.socket.get());
  master_host_ = world.master.host;
  if (!secret_file_.empty()) secret_ = new_secret_in(secret_file_);
  peers_ = all_others();
}

void NodeLink::be_elastic(const std::string& invitation) {
  elastic_ = true;
  invitation_ = invitation;
  if (leads()) tell_table();
}

std::vector<NodeLink::Peer> NodeLink::all_others() const {
  std::vector<Peer> others;
  for (int64_t node = 0; node < here_.nodes; ++node) {
    if (node != here_.node) others.push_back({.place = {.node = node}, .wire = {}});
  }
  return others;
}

NodeLink::Peer NodeLink::peer_of(NodeWire wire, const NodeMessage& hello, double now) {
  return {.place = hello.place,
          .wire = std::move(wire),
          .came = true,
          .heard = now,
          .address = {hello.place.node, hello.text, hello.port}};
}

NodeLink::Peer* NodeLink::find(int64_t node) {
  const auto found = std::ranges::find(peers_, node, [](const Peer& p) { return p.place.node; });
  return found == peers_.end() ? nullptr : &*found;
}

// On the node that leads: who takes part has changed.
void NodeLink::tell_table() {
  if (!elastic_) return;
  table_ = {.leader = here_.node,
            .nodes = {{here_.node, address_.empty() ? master_host_ : address_, listener_.port}}};
  for (const Peer& peer : peers_) {
    if (peer.came && peer.address.port > 0) table_.nodes.push_back(peer.address);
  }
  std::ranges::sort(table_.nodes, {}, &NodeAddress::node);
  send({.word = Word::kTable, .place = here_, .table = table_});
  if (!run_dir_.empty()) write_table(run_dir_, table_);
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

void NodeLink::forget(int64_t node, const std::string& why) {
  Peer* peer = find(node);
  if (peer == nullptr) return;
  constexpr int64_t kCode = code_of(Exit::kRankDied);
  if (!why.empty()) peer->wire.send({.word = Word::kRefused, .number = kCode, .text = why});
  peer->wire.finish(0);
  *peer = {.place = {.node = node}, .wire = {}};
  tell_table();
}

bool NodeLink::may_go_on_without_silent() const {
  const double now = monotonic_seconds();
  int64_t heard = 1, all = 1;
  std::vector<NodeAddress> silent;
  for (const Peer& peer : peers_) {
    if (!peer.came || !peer.wire.open()) continue;
    if (now - peer.heard < silence_ / 2) {
      ++heard;
      ++all;
    } else {
      silent.push_back(peer.address);
    }
  }
  if (2 * heard >= all + static_cast<int64_t>(silent.size())) return true;
  for (const NodeAddress& one : silent) {
    if (2 * heard < all) break;
    if (knock(one) == Door::kDoesNotAnswer) ++all;  // else it is dead or frozen
  }
  return 2 * heard >= all;
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
  if (wire.objection() == NodeWire::kOtherSecret)
    return fmt::format("refused what listens there: {} (GANTRAIN_JOB_SECRET)",
                       NodeWire::kOtherSecret);
  peer.heard = monotonic_seconds();
  peer.came = wire.proved() || ++closed_ == kMostClosed;
  if (!wire.proved()) {
    if (peer.came) news_.push_back({.from = peer.place, .lost = "it closes the connection"});
    return "what listens there closes the connection";
  }
  peer.wire = std::move(wire);
  const bool asks = here_.node < 0;  // which node it is to be
  address_ = address_of_socket(peer.wire.descriptor());
  if (elastic_ && !listener_.socket) {
    listener_ = listen_on(0, {address_});
    set_nonblocking(listener_.socket.get());
  }
  peer.wire.send({.word = asks ? Word::kJoin : Word::kHello,
                  .port = listener_.port,
                  .text = address_,
                  .place = asks ? NodePlace() : here_});
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
  for (const Newcomer& one : newcomers_)
    if (!one.said || !leads()) add(one.wire);  // else it waits, and is not read
  if (succession_) add(succession_->wire());
}

double NodeLink::next_beat() const {
  return succession_ ? std::min(next_beat_, last_look_ + kLookWhileSeeking) : next_beat_;
}

std::vector<int> NodeLink::descriptors() const {
  std::vector<pollfd> polled;
  watch(polled);
  std::vector<int> all;
  for (const pollfd& one : polled) all.push_back(one.fd);
  for (const Newcomer& one : newcomers_)
    if (one.wire.open()) all.push_back(one.wire.descriptor());  // those that wait, too
  return all;
}

// Why a launcher that introduces itself cannot take part; "" if it can.
std::string NodeLink::objection(const NodePlace& place) const {
  if (place.nodes != here_.nodes || place.ranks != here_.ranks)
    return disagreement_text(sizes_of(here_), here_.text(), sizes_of(place), place.text());
  if (place.node < 0 || place.node >= here_.nodes)
    return fmt::format("node {}: nodes are numbered from 0 to {}", place.node, here_.nodes - 1);
  const auto same = std::ranges::find_if(
      peers_, [&](const Peer& p) { return p.came && p.place.node == place.node; });
  const bool is_here = place.node == here_.node;
  if (!is_here && same == peers_.end()) return "";
  return started_twice_text(
      fmt::format("node {}", place.node), is_here ? here_.host : same->place.host, place.host);
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
  Peer& peer = *find(hello.place.node);
  peer = peer_of(std::move(wire), hello, now);
  tell_table();
  news_.push_back({.from = peer.place, .message = {.word = Word::kHello}});
}

// Tells a node that asks which one it is to be, and what it has to do.
void NodeLink::invite(NodeWire wire, double now) {
  // Node 0 would be taken for the one that leads, unless a file tells it of that.
  const auto may_be = [this](const Peer& p) {
    return !p.came && (p.place.node > 0 || !run_dir_.empty());
  };
  const auto is_free = [&](const Peer& p) { return may_be(p) && now - p.invited > kInvitation; };
  auto free = std::ranges::find_if(peers_, is_free);
  if (free == peers_.end()) free = std::ranges::find_if(peers_, may_be);
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

// Whether a newcomer has not said who it is, or waits until this node leads, or until the launcher
// is forgotten that was lost on its node.
bool NodeLink::has_to_wait(const Newcomer& one) const {
  if (!one.said || !leads()) return true;
  return elastic_ && one.said->word == Word::kHello &&
         std::ranges::any_of(peers_, [&](const Peer& p) {
           return p.came && !p.wire.open() && p.place.node == one.said->place.node;
         });
}

// Takes what a newcomer has said; false if it has to wait, or for its end.
bool NodeLink::answer(Newcomer& one, double now) {
  const Word word = one.said->word;
  if (leads()) {
    if (has_to_wait(one)) return false;
    if (word == Word::kHello) greet(std::move(one.wire), *one.said, now);
    if (word == Word::kJoin) invite(std::move(one.wire), now);
    if (word == Word::kFollow) {
      one.wire.send({.word = Word::kRefused, .text = "it has come too late to go on"});
      one.wire.finish(0);
    }
    return word == Word::kHello || word == Word::kJoin || word == Word::kFollow;
  }
  const NodeAddress* leader = table_.find(leader_);
  if (word != Word::kJoin || succession_ || leader == nullptr) return false;
  one.wire.send({.word = Word::kRefused,
                 .text = fmt::format("node {} leads this run: {} join {}:{}",
                                     leader_,
                                     program(),
                                     leader->host,
                                     leader->port)});
  one.wire.finish(0);
  return true;
}

// Says of the first, the tenth, the hundredth ... stranger. A launcher that looks whether this one
// lives is none.
void NodeLink::refuse(const NodeWire& stranger) {
  if (stranger.proved() || (!leads() && stranger.objection().empty())) return;
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
    if (!one.said) {
      const std::vector<NodeMessage> said = one.wire.receive();
      if (!said.empty()) one.said = said.front();
    }
    if (one.said && answer(one, now)) continue;
    if (has_to_wait(one) && one.wire.open() && now - one.since < silence_) {
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
  if (message.word == Word::kTable && !leads()) {
    table_ = std::move(message.table);
    return;
  }
  if (message.word == Word::kStart && !leads()) peer.place = message.place;
  if (message.word == Word::kReplaced && leads()) leader_ = message.place.node;
  peer.ended = peer.ended || message.word == Word::kEnded || message.word == Word::kRefused ||
               message.word == Word::kReplaced;
  events.push_back({.from = peer.place, .message = std::move(message)});
}

void NodeLink::listen_to(Peer& peer, double now, std::vector<NodeEvent>& events) {
  if (!peer.wire.open() || (succession_ && succession_->is_settled())) return;
  for (NodeMessage& message : peer.wire.receive()) {
    peer.heard = now;
    take(peer, std::move(message), events);
  }
  if (peer.ended) return;
  std::string lost;
  const bool closed = !peer.wire.open();
  if (closed) {
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
  if (lost.empty()) return;
  if (!leads() && passes_on_ && table_.find(here_.node) != nullptr) {
    succession_.emplace(
        Succession::Site{here_, {here_.node, address_, listener_.port}, table_, silence_, secret_},
        Succession::Loss{lost, closed, now});
  } else {
    events.push_back({.from = peer.place, .lost = lost, .silent = !closed});
  }
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
  if (succession_) succeed(now, events);
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
  succession_.reset();
  listener_.socket.close();
  if (leads() && elastic_ && !run_dir_.empty()) write_table(run_dir_, {});
}

// Where the launcher that led is lost: the next step to another one.
void NodeLink::succeed(double now, std::vector<NodeEvent>& events) {
  Succession& s = *succession_;
  Peer& before = peers_.front();
  if (!s.is_settled() && !s.loss().closed && before.heard > s.loss().since) {  // it was late
    before.ended = false;
    return succession_.reset();
  }
  switch (s.step(now, newcomers_)) {
    case Succession::Step::kSeeks:
      return;
    case Succession::Step::kGivesUp:
      before.wire.finish(0);
      events.push_back({.from = before.place, .lost = s.loss().text});
      return succession_.reset();
    case Succession::Step::kFollows: {
      Peer leader{.place = s.said().front().place, .wire = std::move(s.wire()), .came = true};
      leader.heard = now;
      table_ = s.said().front().table;
      const std::vector<NodeMessage> more(std::next(s.said().begin()), s.said().end());
      replace_leader(events, leader.place);
      peers_.clear();
      peers_.push_back(std::move(leader));
      for (const NodeMessage& message : more) take(peers_.front(), message, events);
      return;
    }
    case Succession::Step::kLeads: {
      std::vector<Newcomer> followers = std::move(s.followers());
      replace_leader(events, here_);
      peers_ = all_others();
      for (Newcomer& one : followers)
        *find(one.said->place.node) = peer_of(std::move(one.wire), *one.said, now);
      return tell_table();
    }
  }
}

// Tells the launcher that led that it does not any more, should it be frozen and wake.
void NodeLink::replace_leader(std::vector<NodeEvent>& events, const NodePlace& by) {
  Peer& before = peers_.front();
  before.wire.send({.word = Word::kReplaced, .place = by});
  before.wire.finish(0);
  events.push_back(
      {.from = before.place,
       .message = {.word = Word::kTable, .text = succession_->loss().text, .place = by}});
  leader_ = by.node;
  succession_.reset();
}

}  // namespace gantrain
