// SPDX-License-Identifier: Apache-2.0
#include "launch/local/elastic.h"

#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <limits>
#include <thread>
#include <utility>

#include "launch/local/spawn.h"
#include "util/error.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr uint64_t kDismissed = 0xffff;          // instead of a rank
constexpr double kLongestReplacementPause = 60;  // seconds before a lost rank is replaced
constexpr double kFrozen = 10;                   // seconds that a rank may be stopped
constexpr double kLookForFrozen = 1;             // seconds between two looks

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

void pause_briefly() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

UniqueFd new_bell() {
  UniqueFd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell) fail(Exit::kEnvironment, "an elastic run needs an eventfd: {}", errno_text());
  return bell;
}

}  // namespace

void Roster::announce(int64_t slot, int64_t border) {
  seat(slot).border = border;
  seat(slot).announced += 1;
  if (bell_ >= 0) ::eventfd_write(bell_, 1);
}

std::optional<Roster::Place> Roster::place_after(int64_t slot, int64_t generation) const {
  const Place place = unpacked(seat(slot).place);
  if (place.generation <= generation) return std::nullopt;
  return place;
}

int64_t Roster::port(int64_t generation) const {
  const int64_t known = port_;
  return known >> 16 == generation ? known & 0xffff : 0;
}

void Roster::put(int64_t slot, const Place& place) { seat(slot).place = packed(place); }

void Roster::forget(int64_t slot) {
  seat(slot).announced = 0;
  seat(slot).border = -1;
  seat(slot).place = 0;
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
  if (ranks.nodes > 1) {
    fail(Exit::kUsage,
         "--nproc MIN:MAX on {}: a run is elastic on one node alone; give one --nproc, and "
         "--max-restarts for what befalls a node",
         counted(ranks.nodes, "node"));
  }
  const int64_t most = ranks.local_world;
  if (most > Roster::kMost)
    fail(Exit::kUsage, "--nproc {}: an elastic run has at most {} ranks", most, Roster::kMost);
  if (o.nproc_min && *o.nproc_min > most) {
    fail(Exit::kUsage,
         "launch.nproc_min = {}, but at most {} (--nproc)",
         *o.nproc_min,
         counted(most, "rank"));
  }
  parse_rank_plan(o.rank_plan, most);
}

ElasticRanks::ElasticRanks(const LaunchOptions& options, RankStatusBoard& board)
    : board_(board),
      slots_(static_cast<size_t>(board.ranks())),
      plan_(parse_rank_plan(options.rank_plan, board.ranks())),
      least_(options.nproc_min.value_or(1)) {
  const int64_t first = plan_.empty() ? board.ranks() : plan_.front().ranks;
  for (int64_t i = 0; i < first; ++i) slots_[static_cast<size_t>(i)].runs = true;
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
  return (plan_.empty() || missing_ > 0) && !std::ranges::all_of(slots_, &Slot::runs);
}

double ElasticRanks::next_start() const {
  return lacks_ranks() ? start_at_ : std::numeric_limits<double>::infinity();
}

bool ElasticRanks::is_ready(size_t slot) const {
  return board_.roster.announced(static_cast<int64_t>(slot)) > slots_[slot].taken;
}

bool ElasticRanks::goes_on_without(int64_t slot, bool in_order) {
  Slot& one = slots_[static_cast<size_t>(slot)];
  one.runs = false;
  const bool was_member = std::exchange(one.member, false);
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
    if (slots_[i].runs || (!plan_.empty() && missing_ <= 0)) continue;
    --missing_;
    slots_[i] = {.runs = true};
    board_.roster.forget(static_cast<int64_t>(i));
    board_.renew(static_cast<int64_t>(i));
    taken.push_back(static_cast<int64_t>(i));
  }
  if (plan_.empty()) missing_ = 0;
  return taken;
}

void ElasticRanks::could_not_start(const std::vector<int64_t>& slots) {
  for (const int64_t slot : slots) slots_[static_cast<size_t>(slot)].runs = false;
  start_at_ = monotonic_seconds() + kLongestReplacementPause;
}

ElasticSupervision::ElasticSupervision(const LaunchOptions& options, RankStatusBoard& board)
    : bell_(new_bell()), ranks_(options, board) {
  board.roster.begin(bell_.get());
}

double ElasticSupervision::now() { return monotonic_seconds(); }

double ElasticSupervision::next_deadline(double now) const {
  return std::min(now + kLookForFrozen, ranks_.next_start());
}

void ElasticSupervision::look(std::vector<RankProcess>& ranks, double watch_from) {
  eventfd_t rung = 0;
  ::eventfd_read(bell_.get(), &rung);  // before what it told of is read
  ranks_.consult();
  for (size_t i = 0; i < ranks.size(); ++i) {
    RankProcess& rank = ranks[i];
    if (!rank.alive || !ranks_.is_member(static_cast<int64_t>(i))) continue;
    if (!stopped_too_long(rank.pid, rank.stopped_since, watch_from, kFrozen)) continue;
    clear_live_bar();
    warn("rank {} (pid {}) has been stopped for {}: it is ended",
         i,
         rank.pid,
         short_duration(kFrozen));
    rank.stopped_since = 0;
    signal_process(rank.pid, SIGKILL);
  }
}

bool ElasticSupervision::goes_on_without(int64_t slot, int status, bool told) {
  const bool in_order = told || status == 0;
  if (in_order) ranks_.goes_on_without(slot, in_order);
  if (in_order || (WIFEXITED(status) && ranks_.is_member(slot))) return false;
  return ranks_.goes_on_without(slot, in_order);
}

void ElasticSupervision::tell_of_loss(const Death& death) const {
  clear_live_bar();
  warn("rank {} (pid {}) {}{} at iteration {}; the run goes on with {}",
       death.rank,
       death.pid,
       death.signal != 0 ? "died of " + signal_text(death.signal) : "failed: " + death.message,
       death.host_was_short ? ", the kernel was short of memory," : "",
       death.iteration,
       counted(ranks_.members(), "rank"));
}

ElasticRank::ElasticRank(const RankContext& context)
    : context_(context), roster_(context.board->roster) {}

bool ElasticRank::is_lost() const { return roster_.is_lost(place_.generation); }
bool ElasticRank::is_wanted() const { return roster_.is_wanted(place_.generation); }

std::optional<Rendezvous> ElasticRank::meet(int64_t border) {
  const int64_t slot = context_.board_index;
  while (true) {
    roster_.announce(slot, border);
    std::optional<Roster::Place> place;
    while (!(place = roster_.place_after(slot, place_.generation))) pause_briefly();
    if (place->dismissed) return std::nullopt;
    place_ = *place;
    Rendezvous meeting;
    meeting.ranks = {.rank = place_.rank,
                     .world = place_.world,
                     .local_rank = place_.rank,
                     .local_world = place_.world};
    if (place_.rank == 0) {
      const Listener listener = listen_on(0, kLoopback);
      meeting.listen_fd = ::dup(listener.socket.get());  // the store closes it
      meeting.master.port = listener.port;
      roster_.set_port(place_.generation, listener.port);
      return meeting;
    }
    while (meeting.master.port == 0 && !is_lost()) {
      pause_briefly();
      meeting.master.port = roster_.port(place_.generation);
    }
    if (meeting.master.port != 0) return meeting;
  }
}

}  // namespace gantrain
