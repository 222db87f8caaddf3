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

std::vector<PlannedRanks> parse_rank_plan(const std::string& text, int64_t most) {
  std::vector<PlannedRanks> plan;
  for (const std::string& step : split(text, ',')) {
    if (text.empty()) break;
    const std::vector<std::string> sides = split(step, ':');
    const auto iteration = parse_int(sides.front());
    const auto ranks = sides.size() == 2 ? parse_int(sides[1]) : std::nullopt;
    const bool follows = plan.empty() ? iteration == 0 : iteration > plan.back().iteration;
    if (!iteration || !ranks || !follows || *ranks < 1 || *ranks > most) {
      fail(Exit::kUsage,
           "launch.rank_plan = {}: \"{}\" is no ITERATION:RANKS; the first one is at iteration 0, "
           "each one later than the one before, with 1 to {} ranks",
           text,
           step,
           most);
    }
    plan.push_back({*iteration, *ranks});
  }
  return plan;
}

int64_t planned_ranks(const std::vector<PlannedRanks>& plan, int64_t iteration) {
  int64_t ranks = 0;
  for (const PlannedRanks& step : plan) {
    if (step.iteration <= iteration) ranks = step.ranks;
  }
  return ranks;
}

void check_elastic(const LaunchOptions& o, const RankInfo& ranks) {
  if (!is_elastic(o)) return;
  if (o.nnodes_min && *o.nnodes_min > ranks.nodes) {
    fail(Exit::kUsage,
         "launch.nnodes_min = {}, but at most {} (--nnodes)",
         *o.nnodes_min,
         counted(ranks.nodes, "node"));
  }
  const int64_t here = ranks.local_world, most = ranks.nodes * here;
  if (most > Roster::kMost) {
    fail(Exit::kUsage,
         "{}: an elastic run has at most {}",
         sizes_text(most, ranks.nodes),
         counted(Roster::kMost, "rank"));
  }
  if (o.nproc_min && *o.nproc_min > here) {
    fail(Exit::kUsage,
         "launch.nproc_min = {}, but at most {} (--nproc)",
         *o.nproc_min,
         counted(here, "rank"));
  }
  parse_rank_plan(o.rank_plan, most);
}

ElasticRanks::ElasticRanks(const LaunchOptions& options,
                           RankStatusBoard& board,
                           const std::vector<bool>& there)
    : board_(board),
      slots_(there.empty() ? static_cast<size_t>(board.ranks()) : there.size()),
      plan_(parse_rank_plan(options.rank_plan, static_cast<int64_t>(slots_.size()))),
      least_(options.nproc_min.value_or(1) * options.nnodes_min.value_or(1)) {
  for (size_t i = 0; i < there.size(); ++i) slots_[i].there = there[i];
  int64_t first = std::ranges::count_if(slots_, &Slot::there);
  if (!plan_.empty()) first = std::min(first, plan_.front().ranks);
  for (Slot& slot : slots_) {
    if (first > 0 && slot.there) slot.runs = first-- > 0;
  }
}

std::vector<int64_t> ElasticRanks::first_slots() const {
  std::vector<int64_t> first;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].runs) first.push_back(static_cast<int64_t>(i));
  }
  return first;
}

int64_t ElasticRanks::members() const { return std::ranges::count_if(slots_, &Slot::member); }

// Whether some are missing that may be started once the pause after a loss is over.
bool ElasticRanks::lacks_ranks() const {
  if (generation_ == 0 || members() == 0) return false;
  return (plan_.empty() || missing_ > 0) &&
         std::ranges::any_of(slots_, [](const Slot& slot) { return slot.there && !slot.runs; });
}

double ElasticRanks::next_start() const {
  return lacks_ranks() ? start_at_ : std::numeric_limits<double>::infinity();
}

bool ElasticRanks::is_ready(size_t slot) const {
  return board_.roster.announced(static_cast<int64_t>(slot)) > slots_[slot].taken;
}

bool ElasticRanks::goes_on_without_all(const std::vector<int64_t>& slots, bool in_order) {
  bool was_member = false;
  for (const int64_t slot : slots) {
    Slot& one = slots_[static_cast<size_t>(slot)];
    one.runs = false;
    was_member = std::exchange(one.member, false) || was_member;
  }
  if (in_order) return true;
  if (generation_ == 0) return false;
  if (was_member && members() < least_) return false;
  losses_ += 1;
  // At first at once; what is lost again and again is replaced more and more seldom.
  const double pause =
      losses_ == 1 ? 0 : std::min(kLongestReplacementPause, std::exp2(losses_ - 2));
  start_at_ = monotonic_seconds() + pause;
  if (!was_member) return true;
  forming_ = true;
  board_.roster.lose(generation_);
  return true;
}

bool ElasticRanks::goes_on_without_node(const std::vector<int64_t>& slots) {
  for (const int64_t slot : slots) {
    slots_[static_cast<size_t>(slot)].there = false;
    slots_[static_cast<size_t>(slot)].taken = 0;
    board_.roster.forget(slot);
  }
  // Those that load begin without the node, unless a plan says how many there are.
  if (generation_ > 0) return goes_on_without_all(slots, false);
  goes_on_without_all(slots, true);
  return plan_.empty() && static_cast<int64_t>(first_slots().size()) >= least_;
}

void ElasticRanks::admit(const std::vector<int64_t>& slots) {
  for (const int64_t slot : slots) slots_[static_cast<size_t>(slot)].there = true;
  start_at_ = 0;
}

void ElasticRanks::dismiss(size_t slot) {
  slots_[slot].member = false;
  slots_[slot].taken = board_.roster.announced(static_cast<int64_t>(slot));
  board_.roster.put(static_cast<int64_t>(slot), {.generation = generation_ + 1, .dismissed = true});
}

void ElasticRanks::consult() {
  std::vector<size_t> ready;
  int64_t ready_members = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].runs || !is_ready(i)) continue;
    ready.push_back(i);
    if (slots_[i].member) ++ready_members;
  }
  const int64_t alive = members();
  if (generation_ == 0) {
    if (ready.size() == first_slots().size()) form(ready);
    return;
  }
  if (alive == 0) {  // the run is over
    for (const size_t slot : ready) dismiss(slot);
    forming_ = false;
    return;
  }
  if (ready_members == 0 && !forming_) {
    if (!ready.empty() && plan_.empty()) board_.roster.want(generation_);
    return;
  }
  if (ready_members == alive) form(ready);
}

// Rank 0 is who has come furthest; its memory is everybody's.
void ElasticRanks::form(std::vector<size_t> ready) {
  const auto border = [this](size_t slot) {
    return board_.roster.border(static_cast<int64_t>(slot));
  };
  std::ranges::stable_sort(ready, [&](size_t a, size_t b) { return a < b; });
  const auto first =
      std::ranges::max_element(ready, [&](size_t a, size_t b) { return border(a) < border(b); });
  std::rotate(ready.begin(), first, first + 1);
  if (!plan_.empty()) {
    const int64_t iteration = std::max<int64_t>(border(ready.front()), 0);
    const auto planned = static_cast<size_t>(planned_ranks(plan_, iteration));
    int64_t on_their_way = 0;
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].runs && !slots_[i].member && !is_ready(i)) ++on_their_way;
    }
    missing_ = static_cast<int64_t>(planned) - static_cast<int64_t>(ready.size()) - on_their_way;
    if (ready.size() < planned) return;
    missing_ = 0;
    for (size_t i = planned; i < ready.size(); ++i) dismiss(ready[i]);
    ready.resize(planned);
  }
  generation_ += 1;
  forming_ = false;
  for (size_t rank = 0; rank < ready.size(); ++rank) {
    Slot& slot = slots_[ready[rank]];
    slot.member = true;
    slot.taken = board_.roster.announced(static_cast<int64_t>(ready[rank]));
    board_.roster.put(static_cast<int64_t>(ready[rank]),
                      {.generation = generation_,
                       .rank = static_cast<int64_t>(rank),
                       .world = static_cast<int64_t>(ready.size())});
  }
}

std::vector<int64_t> ElasticRanks::take_slots_to_start(double now) {
  std::vector<int64_t> taken;
  if (!lacks_ranks() || now < start_at_) return taken;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].there || slots_[i].runs || (!plan_.empty() && missing_ <= 0)) continue;
    --missing_;
    slots_[i] = {.runs = true};
    board_.roster.forget(static_cast<int64_t>(i));
    taken.push_back(static_cast<int64_t>(i));
  }
  if (plan_.empty()) missing_ = 0;
  return taken;
}

void ElasticRanks::could_not_start(const std::vector<int64_t>& slots) {
  for (const int64_t slot : slots) slots_[static_cast<size_t>(slot)].runs = false;
  start_at_ = monotonic_seconds() + kLongestReplacementPause;
}

ElasticSupervision::ElasticSupervision(const LaunchOptions& options,
                                       RankStatusBoard& board,
                                       NodeCouncil* nodes,
                                       const RankInfo& node)
    : board_(board),
      nodes_(nodes),
      first_(node.node_rank * board.ranks()),
      least_nodes_(options.nnodes_min.value_or(node.nodes)),
      bell_(new_bell()) {
  board.roster.begin(bell_.get(), nodes == nullptr ? kLoopback.front() : nodes->own_host());
  if (node.node_rank > 0) return;
  std::vector<bool> there(static_cast<size_t>(board.ranks()), true);
  if (nodes != nullptr) {
    const std::vector<int64_t> others = nodes->present();
    there_.insert(others.begin(), others.end());
    there.resize(there.size() * static_cast<size_t>(node.nodes));
    for (const int64_t other : there_) {
      for (const int64_t slot : slots_of_node(other)) there[static_cast<size_t>(slot)] = true;
    }
  }
  ranks_.emplace(options, board, there);
}

std::vector<int64_t> ElasticSupervision::slots_of_node(int64_t node) const {
  std::vector<int64_t> slots(static_cast<size_t>(board_.ranks()));
  std::iota(slots.begin(), slots.end(), node * board_.ranks());
  return slots;
}

// Of these slots of the run, those of this node; the other nodes are told to start theirs.
std::vector<int64_t> ElasticSupervision::start(std::vector<int64_t> slots) {
  std::map<int64_t, std::vector<int64_t>> elsewhere;
  for (const int64_t slot : slots) {
    if (slot >= board_.ranks()) elsewhere[slot / board_.ranks()].push_back(slot % board_.ranks());
  }
  for (const auto& [node, theirs] : elsewhere)
    nodes_->send_to(node, {.word = NodeMessage::Word::kStartRanks, .slots = theirs});
  std::erase_if(slots, [this](int64_t slot) { return slot >= board_.ranks(); });
  return slots;
}

std::vector<int64_t> ElasticSupervision::first_slots() {
  return is_node_0() ? start(ranks_->first_slots()) : std::vector<int64_t>{};
}

bool ElasticSupervision::has_members() const {
  return is_node_0() ? ranks_->members() > 0 : worked_;
}

bool ElasticSupervision::is_over() const {
  if (is_node_0()) return !ranks_->has_processes();
  return nodes_->node_0_has_ended();
}

std::vector<int64_t> ElasticSupervision::take_slots_to_start() {
  std::vector<int64_t> slots = is_node_0() ? start(ranks_->take_slots_to_start(monotonic_seconds()))
                                           : std::exchange(to_start_, {});
  for (const int64_t slot : slots) {
    board_.roster.forget(first_ + slot);
    board_.renew(slot);
  }
  return slots;
}

void ElasticSupervision::could_not_start(const std::vector<int64_t>& slots) {
  if (is_node_0()) return ranks_->could_not_start(slots);
  nodes_->send_to(0, {.word = NodeMessage::Word::kLeft, .number = kNotStarted, .slots = slots});
}

double ElasticSupervision::next_deadline(double now) const {
  const double look = now + kLookForFrozen;
  return is_node_0() ? std::min(look, ranks_->next_start()) : look;
}

bool ElasticSupervision::is_member(int64_t slot) const {
  if (is_node_0()) return ranks_->is_member(slot);
  const auto place = board_.roster.place_after(first_ + slot, 0);
  return place && !place->dismissed;
}

void ElasticSupervision::look(std::vector<RankProcess>& ranks, double watch_from) {
  eventfd_t rung = 0;
  ::eventfd_read(bell_.get(), &rung);  // before what it told of is read
  if (nodes_ != nullptr) {
    for (const NodeEvent& event : nodes_->take_elastic()) on_event(event);
  }
  if (is_node_0()) ranks_->consult();
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
}

int ElasticSupervision::code_of_run(int code_here) const {
  return nodes_ == nullptr ? code_here : nodes_->code_of_node_0().value_or(code_here);
}

bool ElasticSupervision::goes_on_without(bool told, int status, const Death& death) {
  const int64_t slot = death.rank - first_;
  const bool left = WIFEXITED(status) && (status == 0 || is_stop_code(WEXITSTATUS(status)));
  const bool in_order = told || left;
  const bool begins = !is_node_0() && !worked_;  // would fail again
  if (!in_order && WIFEXITED(status) && (begins || is_member(slot))) return false;
  if (is_node_0()) {
    if (!ranks_->goes_on_without(slot, in_order)) return false;
    if (!in_order) tell_of_loss(death);
    return !in_order;
  }
  board_.roster.forget(first_ + slot);
  nodes_->send_to(0,
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
  const int64_t first = event.from.node * board_.ranks();
  if (!event.lost.empty()) return lose_node(event);
  if (!is_sound(message)) return warn("{} sends what makes no sense here", event.from.text());
  switch (message.word) {
    case NodeMessage::Word::kHello:
      return admit(event);
    case NodeMessage::Word::kRoster:
      if (is_node_0()) return board_.roster.take_seats(first, message.roster);
      board_.roster.take_places(first_, message.roster);
      for (const int64_t slot : slots_of_node(0)) worked_ = worked_ || is_member(slot);
      return;
    case NodeMessage::Word::kStartRanks:
      std::ranges::copy(message.slots, std::back_inserter(to_start_));
      return;
    case NodeMessage::Word::kLeft:
      return on_left(event);
    case NodeMessage::Word::kEndRank:
      if (is_node_0() && event.from.node != 0) return nodes_->send_to(event.from.node, message);
      to_end_.insert(message.slots.begin(), message.slots.end());
      return;
    default:
      return;
  }
}

// On node 0: a rank of another node has ended.
void ElasticSupervision::on_left(const NodeEvent& event) {
  for (const int64_t slot_there : event.message.slots) {
    const int64_t slot = event.from.node * board_.ranks() + slot_there;
    board_.roster.forget(slot);
    if (event.message.number == kNotStarted) {
      ranks_->could_not_start({slot});
      continue;
    }
    const bool goes_on = ranks_->goes_on_without(slot, event.message.number == kInOrder);
    if (event.message.number == kInOrder) continue;
    for (const Death& death : event.message.deaths) {
      if (goes_on) tell_of_loss(death);
    }
    if (!goes_on) nodes_->hear_of(event.message.deaths);
  }
}

// On node 0: another node's launcher is gone or silent, or has given up.
void ElasticSupervision::lose_node(const NodeEvent& event) {
  const int64_t node = event.from.node;
  if (there_.erase(node) == 0) return;
  const bool enough = static_cast<int64_t>(there_.size()) + 1 >= least_nodes_;
  if (!ranks_->goes_on_without_node(slots_of_node(node)) || !enough)
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
  if (!is_node_0()) return tell(0, board_.roster.news(first_, board_.ranks()));
  for (const int64_t node : there_)
    tell(node, board_.roster.news(node * board_.ranks(), board_.ranks()));
}

}  // namespace gantrain
