// SPDX-License-Identifier: Apache-2.0
#include "launch/local/elastic.h"

#include <sys/eventfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "launch/local/spawn.h"
#include "launch/nodes/node_council.h"
#include "util/error.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr double kLongestReplacementPause = 60;  // seconds before a lost rank is replaced
constexpr double kFrozen = 10;                   // seconds that a rank may be stopped
constexpr double kLookForFrozen = 1;             // seconds between two looks

// How a rank of another node has left, in NodeMessage::number.
enum : int64_t { kInOrder = 0, kLost = 1, kNotStarted = 2 };

UniqueFd new_bell() {
  UniqueFd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell) fail(Exit::kEnvironment, "an elastic run needs an eventfd: {}", errno_text());
  return bell;
}

}  // namespace

ElasticSupervision::ElasticSupervision(const LaunchOptions& options,
                                       RankStatusBoard& board,
                                       NodeCouncil* nodes,
                                       const RankInfo& node)
    : options_(options),
      board_(board),
      nodes_(nodes),
      first_(node.node_rank * board.ranks()),
      most_nodes_(node.nodes),
      least_nodes_(options.nnodes_min.value_or(node.nodes)),
      bell_(new_bell()) {
  board.roster.begin(bell_.get(), nodes == nullptr ? kLoopback.front() : nodes->own_host());
  if (nodes != nullptr && !nodes->leads()) return;
  if (nodes != nullptr) {
    const std::vector<int64_t> others = nodes->present();
    there_.insert(others.begin(), others.end());
  }
  ranks_.emplace(options, board, slots_there());
}

std::vector<int64_t> ElasticSupervision::slots_of_node(int64_t node) const {
  std::vector<int64_t> slots(static_cast<size_t>(board_.ranks()));
  std::iota(slots.begin(), slots.end(), node * board_.ranks());
  return slots;
}

// For each slot of the run whether its node takes part.
std::vector<bool> ElasticSupervision::slots_there() const {
  std::vector<bool> there(static_cast<size_t>(most_nodes_ * board_.ranks()));
  const auto add = [&](int64_t node) {
    for (const int64_t slot : slots_of_node(node)) there[static_cast<size_t>(slot)] = true;
  };
  add(first_ / board_.ranks());
  for (const int64_t node : there_) add(node);
  return there;
}

// Of these slots of the run, those of this node; the other nodes are told to start theirs.
std::vector<int64_t> ElasticSupervision::start(const std::vector<int64_t>& slots) {
  std::map<int64_t, std::vector<int64_t>> by_node;
  for (const int64_t slot : slots) by_node[slot / board_.ranks()].push_back(slot % board_.ranks());
  std::vector<int64_t> here = std::exchange(by_node[first_ / board_.ranks()], {});
  for (const auto& [node, theirs] : by_node) {
    if (!theirs.empty())
      nodes_->send_to(node, {.word = NodeMessage::Word::kStartRanks, .slots = theirs});
  }
  run_.insert(here.begin(), here.end());
  return here;
}

std::vector<int64_t> ElasticSupervision::first_slots() {
  return leads() ? start(ranks_->first_slots()) : std::vector<int64_t>{};
}

bool ElasticSupervision::has_had_members() const {
  return code_ || (leads() ? ranks_->members() > 0 : worked_);
}

bool ElasticSupervision::is_over() const {
  if (leads()) return !ranks_->has_processes();
  return nodes_->leader_has_ended();
}

std::vector<int64_t> ElasticSupervision::take_slots_to_start() {
  const std::vector<int64_t> slots = std::exchange(to_start_, {});
  for (const int64_t slot : slots) {
    board_.roster.forget(first_ + slot);
    board_.renew(slot);
  }
  return slots;
}

void ElasticSupervision::could_not_start(const std::vector<int64_t>& slots) {
  if (slots.empty()) return;
  for (const int64_t slot : slots) run_.erase(slot);
  if (leads()) {
    std::vector<int64_t> of_run;
    for (const int64_t slot : slots) of_run.push_back(first_ + slot);
    return ranks_->could_not_start(of_run);
  }
  nodes_->send_to(nodes_->leader(),
                  {.word = NodeMessage::Word::kLeft, .number = kNotStarted, .slots = slots});
}

void ElasticSupervision::start_none() {
  could_not_start(std::exchange(to_start_, {}));
  if (leads()) ranks_->could_not_start({});
}

double ElasticSupervision::next_deadline(double now) const {
  const double look = now + kLookForFrozen;
  return leads() ? std::min(look, ranks_->next_start()) : look;
}

bool ElasticSupervision::is_member(int64_t slot) const {
  if (leads()) return ranks_->is_member(first_ + slot);
  const auto place = board_.roster.place_after(first_ + slot, 0);
  return place && !place->dismissed;
}

void ElasticSupervision::look(std::vector<RankProcess>& ranks, double watch_from) {
  eventfd_t rung = 0;
  ::eventfd_read(bell_.get(), &rung);  // before what it told of is read
  if (nodes_ != nullptr) {
    for (const NodeEvent& event : nodes_->take_elastic()) on_event(event);
  }
  if (leads()) {
    ranks_->consult();
    // Those of this node may have to wait until it has started others.
    if (board_.stop_request == 0)
      std::ranges::copy(start(ranks_->take_slots_to_start(monotonic_seconds())),
                        std::back_inserter(to_start_));
  }
  if (nodes_ != nullptr) tell_others();
  for (const int64_t slot : std::exchange(to_end_, {}))
    if (slot < static_cast<int64_t>(ranks.size()))
      signal_process(ranks[static_cast<size_t>(slot)].pid, SIGKILL);
  for (size_t i = 0; i < ranks.size(); ++i) {
    RankProcess& rank = ranks[i];
    if (!rank.alive || !is_member(static_cast<int64_t>(i))) continue;
    if (!stopped_too_long(rank.pid, rank.stopped_since, watch_from, kFrozen)) continue;
    clear_live_bar();
    warn("rank {} (pid {}) has been stopped for {}: it is ended",
         first_ + static_cast<int64_t>(i),
         rank.pid,
         short_duration(kFrozen));
    rank.stopped_since = 0;
    signal_process(rank.pid, SIGKILL);
  }
  // If this launcher dies and others go on, they say how the run ends.
  const bool others_go_on = static_cast<int64_t>(there_.size()) >= least_nodes_;
  board_.tells_of_run = leads() && !others_go_on;
}

void ElasticSupervision::note_code(int code) {
  if (is_stop_code(code) || (code == 0 && !code_)) code_ = code;
}

// Ranks that are lost, dismissed or not yet there say nothing of it, and who leads knows of all.
int ElasticSupervision::code_of_run(int stop_signal) const {
  const int here = unfailed_code(stop_signal, {{.code = code_.value_or(-1)}});
  return nodes_ == nullptr ? here : nodes_->code_of_leader().value_or(here);
}

bool ElasticSupervision::goes_on_without(bool told, int status, const Death& death) {
  const int64_t slot = death.rank - first_;  // of this node
  const bool left = WIFEXITED(status) && (status == 0 || is_stop_code(WEXITSTATUS(status)));
  const bool in_order = told || left;
  const bool begins = !leads() && !worked_;  // would fail again
  if (!in_order && WIFEXITED(status) && (begins || is_member(slot))) return false;
  if (left && is_member(slot)) note_code(WEXITSTATUS(status));
  run_.erase(slot);
  if (leads()) {
    // The others do not wait for a member that was killed because it did not stop in time.
    if (!ranks_->goes_on_without(first_ + slot, in_order && !WIFSIGNALED(status))) return false;
    if (!in_order && board_.stop_request == 0) tell_of_loss(death);
    return !in_order;
  }
  board_.roster.forget(first_ + slot);
  nodes_->send_to(nodes_->leader(),
                  {.word = NodeMessage::Word::kLeft,
                   .number = in_order ? kInOrder : kLost,
                   .deaths = {death},
                   .slots = {slot}});
  return !in_order;
}

// "3 ranks", "3 ranks on 2 nodes".
std::string ElasticSupervision::remaining_text() const {
  if (nodes_ == nullptr) return counted(ranks_->members(), "rank");
  return sizes_text(ranks_->members(), static_cast<int64_t>(there_.size()) + 1);
}

void ElasticSupervision::tell_of_loss(const Death& death) const {
  clear_live_bar();
  warn("{}rank {} (pid {}) {}{} at iteration {}; the run goes on with {}",
       death.node > 0 ? fmt::format("node {} ({}): ", death.node, death.host) : "",
       death.rank,
       death.pid,
       death.signal != 0 ? "died of " + signal_text(death.signal) : "failed: " + death.message,
       death.host_was_short ? ", the kernel was short of memory," : "",
       death.iteration,
       remaining_text());
}

bool ElasticSupervision::is_sound(const NodeMessage& message) const {
  const RosterNews& news = message.roster;
  const bool of_roster = message.word == NodeMessage::Word::kRoster;
  if (of_roster && static_cast<int64_t>(news.seats.size()) != board_.ranks()) return false;
  return std::ranges::all_of(message.slots,
                             [this](int64_t slot) { return slot >= 0 && slot < board_.ranks(); }) &&
         news.port >= 0 && news.port < 65536 && news.generation >= 0;
}

void ElasticSupervision::on_event(const NodeEvent& event) {
  const NodeMessage& message = event.message;
  if (!event.lost.empty()) return lose_node(event);
  if (!is_sound(message)) return warn("{} sends what makes no sense here", event.from.text());
  switch (message.word) {
    case NodeMessage::Word::kHello:
      if (takes_over()) return later_.push_back(event);
      return admit(event);
    case NodeMessage::Word::kTable:
      return on_new_leader(event);
    case NodeMessage::Word::kRoster:
      return on_roster(event);
    case NodeMessage::Word::kStartRanks:
      std::ranges::copy(message.slots, std::back_inserter(to_start_));
      run_.insert(message.slots.begin(), message.slots.end());
      return;
    case NodeMessage::Word::kLeft:
      return on_left(event);
    case NodeMessage::Word::kEndRank:
      if (leads() && event.from.node != first_ / board_.ranks())
        return nodes_->send_to(event.from.node, message);
      to_end_.insert(message.slots.begin(), message.slots.end());
      return;
    default:
      return;
  }
}

void ElasticSupervision::on_roster(const NodeEvent& event) {
  const RosterNews& news = event.message.roster;
  const int64_t first = event.from.node * board_.ranks();
  if (leads()) return board_.roster.take_seats(first, news);
  if (!takes_over()) {
    board_.roster.take_places(first_, news);
    for (int64_t slot = 0; slot < board_.ranks(); ++slot) worked_ = worked_ || is_member(slot);
    return;
  }
  board_.roster.take_seats(first, news);
  board_.roster.take_places(first, news);
  for (size_t i = 0; i < news.seats.size(); ++i)
    runs_[static_cast<size_t>(first) + i] = news.seats[i].runs;
  unknown_.erase(event.from.node);
  take_over_if_all_are_known();
}

// The launcher that led is lost. If this one leads now, the others say how far they are.
void ElasticSupervision::on_new_leader(const NodeEvent& event) {
  told_.clear();
  clear_live_bar();
  warn("{}; {} leads the run now", event.message.text, event.message.place.text());
  if (!nodes_->leads()) return;
  lost_ = NodeEvent{.from = event.from, .lost = event.message.text};
  const std::vector<int64_t> others = nodes_->present();
  unknown_ = there_ = {others.begin(), others.end()};
  runs_.assign(static_cast<size_t>(most_nodes_ * board_.ranks()), false);
  take_over_if_all_are_known();
}

void ElasticSupervision::take_over_if_all_are_known() {
  if (!takes_over() || !unknown_.empty()) return;
  const NodeEvent lost = *std::exchange(lost_, std::nullopt);
  const std::vector<bool> there = slots_there();
  for (const int64_t slot : run_) runs_[static_cast<size_t>(first_ + slot)] = true;
  for (size_t i = 0; i < runs_.size(); ++i) runs_[i] = runs_[i] && there[i];
  ranks_.emplace(options_, board_, there);
  const bool goes_on = ranks_->take_over(runs_) && has_enough_nodes();
  if (code_ && !ranks_->has_processes()) return;  // all had left: the run is over
  if (!goes_on) return nodes_->end_without(lost);
  warn("the run goes on with {}", remaining_text());
  for (const NodeEvent& event : std::exchange(later_, {})) on_event(event);
}

// On the node that leads: a rank of another node has ended.
void ElasticSupervision::on_left(const NodeEvent& event) {
  if (!leads() && !takes_over()) return;
  for (const int64_t slot_there : event.message.slots) {
    const int64_t slot = event.from.node * board_.ranks() + slot_there;
    board_.roster.forget(slot);
    if (takes_over()) {  // that node may have told before how far it was
      runs_[static_cast<size_t>(slot)] = false;
      continue;
    }
    if (event.message.number == kNotStarted) {
      ranks_->could_not_start({slot});
      continue;
    }
    const bool in_order = event.message.number == kInOrder;
    const bool was_member = ranks_->is_member(slot);
    const std::vector<Death>& ends = event.message.deaths;
    const bool killed = std::ranges::any_of(ends, [](const Death& end) { return end.signal != 0; });
    const bool goes_on = ranks_->goes_on_without(slot, in_order && !killed);
    for (const Death& end : ends) {
      if (in_order && was_member && !killed) note_code(end.code);
      if (!in_order && goes_on) tell_of_loss(end);
    }
    if (!in_order && !goes_on) nodes_->hear_of(ends);
  }
}

// At a stop who is left saves.
bool ElasticSupervision::has_enough_nodes() const {
  return board_.stop_request != 0 || static_cast<int64_t>(there_.size()) + 1 >= least_nodes_;
}

// On the node that leads: another node's launcher is gone or silent, or has given up.
void ElasticSupervision::lose_node(const NodeEvent& event) {
  const int64_t node = event.from.node;
  // One that has come while this node takes over is forgotten before it is admitted.
  if (std::erase_if(later_, [&](const NodeEvent& come) { return come.from.node == node; }) > 0)
    return nodes_->forget(event);
  if (there_.erase(node) == 0) return;
  if (takes_over()) {
    unknown_.erase(node);
    nodes_->forget(event);
    return take_over_if_all_are_known();
  }
  if (event.silent && !nodes_->may_go_on_without_silent()) return nodes_->end_as_minority(event);
  if (!ranks_->goes_on_without_node(slots_of_node(node)) || !has_enough_nodes())
    return nodes_->end_without(event);
  told_.erase(node);
  nodes_->forget(event);
  clear_live_bar();
  warn("{}; the run goes on with {}", event.lost, remaining_text());
}

void ElasticSupervision::admit(const NodeEvent& event) {
  const int64_t node = event.from.node;
  told_.erase(node);
  there_.insert(node);
  nodes_->welcome(node, board_.run_folder());
  ranks_->admit(slots_of_node(node));
  clear_live_bar();
  info("nodes   {} has come, and takes part as soon as its ranks have started", event.from.text());
}

// Each node is told what has changed of its slots and of the generation.
void ElasticSupervision::tell_others() {
  const auto tell = [this](int64_t node, const RosterNews& news) {
    if (std::exchange(told_[node], news) == news) return;
    nodes_->send_to(node, {.word = NodeMessage::Word::kRoster, .roster = news});
  };
  if (takes_over()) return;
  if (!leads()) {
    RosterNews news = board_.roster.news(first_, board_.ranks());
    for (const int64_t slot : run_) news.seats[static_cast<size_t>(slot)].runs = true;
    return tell(nodes_->leader(), news);
  }
  for (const int64_t node : there_)
    tell(node, board_.roster.news(node * board_.ranks(), board_.ranks()));
}

}  // namespace gantrain
