// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "config/schema.h"
#include "launch/nodes/node_link.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

using Word = NodeMessage::Word;

// All in seconds.
constexpr double kKnock = 0.5;        // a try to connect, while the launcher has other work
constexpr double kAnswer = 2;         // in which a launcher that is at work greets
constexpr double kTryAgain = 0.1;     // between two tries to connect
constexpr double kOneStep = 1;        // of knocking at several doors
constexpr double kOthersChoose = 15;  // for others to find out that their leader is gone

fs::path table_file(const fs::path& run_dir) { return run_dir / ".nodes"; }

std::optional<NodeTable> read_table(const fs::path& run_dir) {
  const auto text = content_of(table_file(run_dir), kMostOfText);
  if (!text) return std::nullopt;
  try {
    return message_from<NodeTable>(parse_foreign(*text));
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// Whether a launcher of this job is at work there.
bool greets(const NodeAddress& at, const std::string& secret) {
  UniqueFd connected;
  if (knock(at, &connected) != Door::kOpens) return false;
  NodeWire wire(std::move(connected), false, secret);
  const double until = monotonic_seconds() + kAnswer;
  while (wire.open() && !wire.proved() && wait_for(wire.descriptor(), POLLIN, until))
    wire.receive();
  return wire.proved();
}

}  // namespace

Door knock(const NodeAddress& at, UniqueFd* connected) {
  std::string problem;
  UniqueFd fd = connect_to({at.host, at.port}, kKnock, problem);
  const bool refused = !fd && errno == ECONNREFUSED;
  const bool opens = static_cast<bool>(fd);
  if (connected != nullptr) *connected = std::move(fd);
  if (opens) return Door::kOpens;
  return refused ? Door::kRefuses : Door::kDoesNotAnswer;
}

const NodeAddress* NodeTable::find(int64_t node) const {
  const auto found = std::ranges::find(nodes, node, &NodeAddress::node);
  return found == nodes.end() ? nullptr : &*found;
}

void write_table(const fs::path& run_dir, const NodeTable& table) {
  std::error_code error;
  if (table.nodes.empty()) {
    fs::remove(table_file(run_dir), error);
    return;
  }
  try {
    AtomicFile file(table_file(run_dir), 0600);
    file.write(message_of(table).dump() + "\n");
    file.commit();
  } catch (const UserError& e) {
    warn("{}; a node that is started again may not find this run", e.what());
  }
}

std::optional<NodeAddress> find_leader(const fs::path& run_dir, const std::string& secret) {
  const double until = monotonic_seconds() + kOthersChoose;
  while (true) {
    const auto table = read_table(run_dir);
    const NodeAddress* leader = table ? table->find(table->leader) : nullptr;
    if (leader == nullptr) return std::nullopt;
    const std::string known = secret.empty() ? secret_in(run_dir / ".job-secret") : secret;
    if (greets(*leader, known)) return *leader;
    const bool others = std::ranges::any_of(table->nodes, [&](const NodeAddress& one) {
      return one.node != leader->node && greets(one, known);
    });
    if (!others || monotonic_seconds() > until) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::duration<double>(kTryAgain));
  }
}

Succession::Step Succession::give_up(const std::string& why) {
  loss_.text += "; " + why;
  return Step::kGivesUp;
}

Succession::Step Succession::step(double now, std::vector<Newcomer>& newcomers) {
  if (!settled_) {
    if (const Step end = settle(now); end != Step::kSeeks || !settled_) return end;
    wire_ = NodeWire();
    next_try_ = 0;
  }
  const int64_t next = first_left();
  return next == site_.here.node ? await_followers(now, newcomers)
                                 : follow(*site_.table.find(next), now);
}

// Finds out what has become of the launcher that led.
Succession::Step Succession::settle(double now) {
  if (wire_.open()) {
    wire_.receive();
    if (wire_.proved()) return give_up("it is at work, and goes on without this node");
    settled_ = wire_.open() && now - asked_ > kAnswer;
    if (settled_) gone_.insert(site_.table.leader);  // it is frozen
    return Step::kSeeks;
  }
  if (now < next_try_) return Step::kSeeks;
  next_try_ = now + kTryAgain;
  const NodeAddress* before = site_.table.find(site_.table.leader);
  UniqueFd connected;
  const Door door = before == nullptr ? Door::kRefuses : knock(*before, &connected);
  const bool over = now - loss_.since > 2 * kAnswer;
  if (connected && !over) {  // else it closes what it opens: it is another program
    wire_ = NodeWire(std::move(connected), false, site_.secret);
    asked_ = now;
    return Step::kSeeks;
  }
  const bool gone = door != Door::kDoesNotAnswer || loss_.closed;
  if (gone) gone_.insert(site_.table.leader);
  settled_ = gone || over;
  return Step::kSeeks;
}

int64_t Succession::first_left() const {
  for (const NodeAddress& one : site_.table.nodes) {
    const bool lost =
        one.node == site_.table.leader || gone_.contains(one.node) || silent_.contains(one.node);
    if (!lost) return one.node;
  }
  return site_.here.node;
}

// Asks the launcher that is to lead to be led by it.
Succession::Step Succession::follow(const NodeAddress& next, double now) {
  if (now - loss_.since > 2 * site_.silence + 2 * kAnswer)
    return give_up(fmt::format("node {} does not lead in its place", next.node));
  if (!wire_.open()) {
    if (now < next_try_) return Step::kSeeks;
    next_try_ = now + kTryAgain;
    UniqueFd connected;
    const Door door = knock(next, &connected);
    if (door == Door::kRefuses) gone_.insert(next.node);
    if (door == Door::kDoesNotAnswer && now - loss_.since > site_.silence)
      silent_.insert(next.node);
    if (!connected) return Step::kSeeks;
    wire_ = NodeWire(std::move(connected), false, site_.secret);
    asked_ = now;
    followed_ = false;
  }
  said_ = wire_.receive();
  if (wire_.open() && !wire_.proved() && now - asked_ > kAnswer) {
    gone_.insert(next.node);  // it is frozen
    wire_ = NodeWire();
    return Step::kSeeks;
  }
  if (wire_.proved() && !followed_) {
    const NodeAddress& own = site_.address;
    wire_.send({.word = Word::kFollow, .port = own.port, .text = own.host, .place = site_.here});
    followed_ = true;
  }
  if (said_.empty()) return Step::kSeeks;
  if (said_.front().word == Word::kRefused) return give_up(said_.front().text);
  return said_.front().word == Word::kTable ? Step::kFollows : Step::kSeeks;
}

bool Succession::is_known(int64_t node) const {
  return node == site_.table.leader || node == site_.here.node || gone_.contains(node) ||
         std::ranges::any_of(followers_,
                             [&](const Newcomer& one) { return one.said->place.node == node; });
}

// Of the node that is to lead: waits for those that are left, and looks which of them live.
Succession::Step Succession::await_followers(double now, std::vector<Newcomer>& newcomers) {
  const auto follows = [this](const Newcomer& one) {
    return one.said && one.said->word == Word::kFollow && one.said->place.node != site_.here.node &&
           site_.table.find(one.said->place.node) != nullptr;
  };
  for (Newcomer& one : newcomers) {
    if (!follows(one)) continue;
    std::erase_if(followers_, [&](const Newcomer& other) {
      return other.said->place.node == one.said->place.node;
    });
    followers_.push_back(std::move(one));
  }
  std::erase_if(newcomers, [](const Newcomer& one) { return !one.wire.open(); });
  const bool tries = now >= next_try_;
  if (tries) next_try_ = now + kTryAgain;
  bool all_known = true;
  for (const NodeAddress& one : site_.table.nodes) {
    if (is_known(one.node)) continue;
    look_at(one, now, tries && monotonic_seconds() - now < kOneStep);
    all_known = all_known && gone_.contains(one.node);
  }
  if (!all_known && now - loss_.since < site_.silence + 2 * kAnswer) return Step::kSeeks;
  if (may_lead()) return Step::kLeads;
  return give_up("others may go on beyond a network that is cut, so this node does not");
}

// Whether a node that has not followed yet is dead, or frozen.
void Succession::look_at(const NodeAddress& one, double now, bool tries) {
  Newcomer& probe = probes_[one.node];
  NodeWire& wire = probe.wire;
  if (wire.open()) {
    wire.receive();
    if (wire.proved()) wire = NodeWire();  // it lives
    if (wire.open() && now - probe.since > kAnswer) gone_.insert(one.node);
  } else if (tries) {
    UniqueFd connected;
    if (knock(one, &connected) == Door::kRefuses) gone_.insert(one.node);
    if (!connected) return;
    wire = NodeWire(std::move(connected), false, site_.secret);
    probe.since = now;
  }
}

bool Succession::may_lead() const {
  std::set<int64_t> all;
  for (const NodeAddress& one : site_.table.nodes) {
    if (!gone_.contains(one.node)) all.insert(one.node);
  }
  const size_t here = 1 + followers_.size();
  const int64_t before = site_.table.leader;
  const int64_t first = all.contains(before) ? before : *all.begin();
  return 2 * here > all.size() || (2 * here == all.size() && first == site_.here.node);
}

NodeMessage ask_to_join(const Endpoint& node_0,
                        const std::string& secret,
                        const std::filesystem::path& run_dir,
                        double seconds) {
  World nobody;
  nobody.ranks.node_rank = -1;
  nobody.ranks.nodes = 2;
  NodeLink link(nobody, {}, {}, secret, run_dir);
  const double until = monotonic_seconds() + seconds;
  std::string problem = "it does not answer";
  for (bool connected = false; monotonic_seconds() < until;) {
    connected = connected || link.connect(node_0, problem);
    std::vector<pollfd> polled;
    link.watch(polled);
    poll_until(polled, monotonic_seconds() + kTryAgain);
    for (const NodeEvent& event : link.exchange()) {
      if (event.message.word == NodeMessage::Word::kInvited) return event.message;
      const std::string why = event.lost.empty() ? event.message.text : event.lost;
      fail(Exit::kEnvironment, "join {}:{}: {}", node_0.host, node_0.port, why);
    }
  }
  fail(Exit::kEnvironment,
       "join {}:{}: no answer within {}: {}; is an elastic run at work there?",
       node_0.host,
       node_0.port,
       short_duration(seconds),
       problem);
}

}  // namespace gantrain
