// SPDX-License-Identifier: Apache-2.0
#include "launch/local/roster.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "launch/local/elastic.h"
#include "launch/local/rank.h"
#include "util/error.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr uint64_t kDismissed = 0xffff;  // instead of a rank

uint64_t packed(const Roster::Place& p) {
  const uint64_t rank = p.dismissed ? kDismissed : static_cast<uint64_t>(p.rank);
  return static_cast<uint64_t>(p.generation) << 32 | static_cast<uint64_t>(p.world) << 16 | rank;
}

Roster::Place unpacked(uint64_t word) {
  const uint64_t rank = word & 0xffff;
  Roster::Place place{.generation = static_cast<int64_t>(word >> 32),
                      .world = static_cast<int64_t>(word >> 16 & 0xffff),
                      .dismissed = rank == kDismissed};
  if (!place.dismissed) place.rank = static_cast<int64_t>(rank);
  return place;
}

}  // namespace

void Roster::ring() const {
  if (bell_ >= 0) ::eventfd_write(bell_, 1);
}

void Roster::begin(int bell, const std::string& own_host) {
  own_host.copy(own_host_.data(), kHostBytes - 1);
  bell_ = bell;
  used_ = true;
}

void Roster::announce(int64_t slot, int64_t border) {
  Seat& own = seat(slot);
  own.border = border;
  own.left = unpacked(own.place).generation;
  own.announced += 1;
  ring();
}

std::optional<Roster::Place> Roster::place_after(int64_t slot, int64_t generation) const {
  const Place place = unpacked(seat(slot).place);
  if (place.generation <= generation) return std::nullopt;
  return place;
}

bool Roster::waits(int64_t slot) const {
  const Seat& one = seat(slot);
  return one.announced > 0 && one.left >= unpacked(one.place).generation;
}

void Roster::set_meeting(int64_t generation, const Endpoint& at) {
  if (port_ >> 16 >= generation) return;  // it is known
  port_ = 0;
  for (size_t i = 0; i + 1 < kHostBytes; ++i) host_[i] = i < at.host.size() ? at.host[i] : '\0';
  port_ = generation << 16 | at.port;
  ring();
}

std::optional<Endpoint> Roster::meeting(int64_t generation) const {
  const int64_t known = port_;
  if (known == 0 || known >> 16 != generation) return std::nullopt;
  Endpoint at{.host = "", .port = known & 0xffff};
  for (size_t i = 0; i < kHostBytes && host_[i] != '\0'; ++i) at.host += host_[i];
  if (port_ != known) return std::nullopt;  // a later generation's is being written
  return at;
}

void Roster::put(int64_t slot, const Place& place) { seat(slot).place = packed(place); }

void Roster::forget(int64_t slot) {
  seat(slot).announced = 0;
  seat(slot).border = -1;
  seat(slot).left = 0;
  seat(slot).place = 0;
}

RosterNews Roster::news(int64_t first, int64_t count) const {
  RosterNews news{.lost = lost_, .wanted = wanted_, .generation = port_ >> 16};
  if (const auto at = meeting(news.generation)) {
    news.host = at->host;
    news.port = at->port;
  } else {
    news.generation = 0;
  }
  for (int64_t slot = first; slot < first + count; ++slot) {
    const Seat& one = seat(slot);
    const int64_t left = one.left;  // first: announce() sets the border before it
    news.seats.push_back({.announced = one.announced,
                          .border = one.border,
                          .left = left,
                          .place = static_cast<int64_t>(one.place.load())});
  }
  return news;
}

void Roster::take_places(int64_t first, const RosterNews& news) {
  lost_ = std::max<int64_t>(lost_, news.lost);
  wanted_ = std::max<int64_t>(wanted_, news.wanted);
  if (news.generation > 0) set_meeting(news.generation, {news.host, news.port});
  for (size_t i = 0; i < news.seats.size(); ++i) {
    Seat& one = seat(first + static_cast<int64_t>(i));
    const auto place = static_cast<uint64_t>(news.seats[i].place);
    if (place > one.place) one.place = place;
  }
}

void Roster::take_seats(int64_t first, const RosterNews& news) {
  if (news.generation > 0) set_meeting(news.generation, {news.host, news.port});
  for (size_t i = 0; i < news.seats.size(); ++i) {
    Seat& one = seat(first + static_cast<int64_t>(i));
    one.border = news.seats[i].border;
    one.left = news.seats[i].left;
    one.announced = news.seats[i].announced;
  }
}

namespace {

void pause_briefly() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

}  // namespace

ElasticRank::ElasticRank(const RankContext& context)
    : context_(context), roster_(context.board->roster) {}

bool ElasticRank::is_lost() const { return roster_.is_lost(place_.generation); }
bool ElasticRank::is_wanted() const { return roster_.is_wanted(place_.generation); }

std::optional<Rendezvous> ElasticRank::meet(int64_t border) {
  const RankInfo& own = context_.ranks();
  const int64_t slot = context_.rank();  // the first rank is that of this slot
  while (true) {
    roster_.announce(slot, border);
    std::optional<Roster::Place> place;
    while (!(place = roster_.place_after(slot, place_.generation))) pause_briefly();
    if (place->dismissed) return std::nullopt;
    place_ = *place;
    Rendezvous meeting;
    meeting.ranks = {.rank = place_.rank,
                     .world = place_.world,
                     .local_rank = own.nodes > 1 ? own.local_rank : place_.rank,
                     .local_world = own.nodes > 1 ? own.local_world : place_.world,
                     .node_rank = own.node_rank,
                     .nodes = own.nodes};
    if (place_.rank == 0) {
      const std::string host = roster_.own_host();
      const Listener listener = listen_on(0, addresses_to_bind(host));
      meeting.listen_fd = ::dup(listener.socket.get());  // the store closes it
      meeting.master = {host, listener.port};
      roster_.set_meeting(place_.generation, meeting.master);
      return meeting;
    }
    std::optional<Endpoint> at;
    while (!at && !is_lost()) {
      pause_briefly();
      at = roster_.meeting(place_.generation);
    }
    if (!at) continue;
    meeting.master = *at;
    return meeting;
  }
}

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
  return board_.roster.waits(static_cast<int64_t>(slot));
}

// The generation that the survivors were in has members that are lost: those of other nodes.
bool ElasticRanks::take_over(const std::vector<bool>& runs) {
  std::vector<Roster::Place> places(slots_.size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].runs = runs[i];
    if (!runs[i]) continue;
    const auto place = board_.roster.place_after(static_cast<int64_t>(i), 0);
    places[i] = place && !place->dismissed ? *place : Roster::Place{};
    generation_ = std::max(generation_, places[i].generation);
  }
  // Where only ranks that are lost knew of a later one, its number is not given again, and where
  // only they were in any, their memory is lost.
  const RosterNews known = board_.roster.news(0, 0);
  const int64_t newest = std::max({generation_, known.lost, known.wanted, known.generation});
  if (newest == 0) return has_processes();
  for (size_t i = 0; i < slots_.size(); ++i)
    slots_[i].member = generation_ > 0 && places[i].generation == generation_;
  generation_ = newest;
  losses_ = 1;
  start_at_ = monotonic_seconds();
  forming_ = true;
  board_.roster.lose(generation_);
  return members() >= least();
}

// At a stop who is left saves.
int64_t ElasticRanks::least() const { return board_.stop_request == 0 ? least_ : 1; }

bool ElasticRanks::goes_on_without_all(const std::vector<int64_t>& slots, bool in_order) {
  bool was_member = false;
  for (const int64_t slot : slots) {
    Slot& one = slots_[static_cast<size_t>(slot)];
    one.runs = false;
    was_member = std::exchange(one.member, false) || was_member;
  }
  if (in_order) return true;
  if (generation_ == 0) return false;
  if (was_member && members() < least()) return false;
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
    const bool all = !ready.empty() && ready.size() == first_slots().size();
    if (all && begins_) form(ready);
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
    if (ready.size() < planned && board_.stop_request == 0) return;  // at a stop none comes
    missing_ = 0;
    for (; ready.size() > planned; ready.pop_back()) dismiss(ready.back());
  }
  generation_ += 1;
  forming_ = false;
  for (size_t rank = 0; rank < ready.size(); ++rank) {
    slots_[ready[rank]].member = true;
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
  begins_ = begins_ && slots.empty();
  start_at_ = monotonic_seconds() + kLongestReplacementPause;
}

}  // namespace gantrain
