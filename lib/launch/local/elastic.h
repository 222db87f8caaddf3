// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launch/options.h"
#include "launch/where/network.h"
#include "util/rank_info.h"

namespace gantrain {

class NodeCouncil;
class RankStatusBoard;
struct Death;
struct NodeEvent;
struct NodeMessage;
struct RankContext;
struct RankProcess;

// What launchers tell each other of their rosters: that of node 0 the places of a node's slots, and
// that of another node which of its ranks wait.
struct RosterNews {
  struct Seat {
    int64_t announced = 0;
    int64_t border = -1;
    int64_t place = 0;
    bool operator==(const Seat&) const = default;
  };
  int64_t lost = 0;
  int64_t wanted = 0;
  int64_t generation = 0;  // whose rank 0 listens at `host` and `port`
  int64_t port = 0;
  std::string host = {};
  std::vector<Seat> seats = {};  // of the node's slots
  bool operator==(const RosterNews&) const = default;
};

template <class Field>
void fields(RosterNews::Seat& s, Field&& field) {
  field("announced", s.announced);
  field("border", s.border);
  field("place", s.place);
}

template <class Field>
void fields(RosterNews& n, Field&& field) {
  field("lost", n.lost);
  field("wanted", n.wanted);
  field("generation", n.generation);
  field("port", n.port);
  field("host", n.host);
  field("seats", n.seats);
}

// An elastic run (--nproc MIN:MAX, --nnodes MIN:MAX) goes on when ranks are lost, and takes new
// ones in. The ranks that work together are a generation. A rank's process has a slot for life, and
// in each generation that it belongs to a rank of its own. The slots of all nodes count on from
// each other. The launcher of node 0 says who is in the next generation; what ranks and launcher
// tell each other about it stands in memory that they share, and launchers tell it each other.
class Roster {
 public:
  static constexpr int64_t kMost = 256;  // slots

  // A slot's place in a generation, which counts from 1.
  struct Place {
    int64_t generation = 0;
    int64_t rank = 0;
    int64_t world = 0;
    bool dismissed = false;  // the run has no more need of this process
  };

  // A rank: it is in no generation now, and wants to be in the next one. `border`: the iterations
  // after which it has the state in memory; -1: it has none.
  void announce(int64_t slot, int64_t border);
  // The slot's place in a later generation than this one; nothing while there is none.
  std::optional<Place> place_after(int64_t slot, int64_t generation) const;
  // A rank of that generation is lost: the others leave it at once.
  bool is_lost(int64_t generation) const { return lost_ >= generation; }
  // Others wait: all ranks of that generation leave it after the same iteration.
  bool is_wanted(int64_t generation) const { return wanted_ >= generation; }
  // Where rank 0 of that generation listens; nothing while it does not yet.
  void set_meeting(int64_t generation, const Endpoint& at);
  std::optional<Endpoint> meeting(int64_t generation) const;
  // The host as which the ranks of other nodes reach this one.
  std::string own_host() const { return own_host_.data(); }

  // The launcher. Ranks ring `bell`, an eventfd that they inherit, when they have told something.
  void begin(int bell, const std::string& own_host);
  bool is_used() const { return used_; }                                  // the run is elastic
  int64_t announced(int64_t slot) const { return seat(slot).announced; }  // how often
  int64_t border(int64_t slot) const { return seat(slot).border; }
  void put(int64_t slot, const Place& place);
  void forget(int64_t slot);
  void lose(int64_t generation) { lost_ = generation; }
  void want(int64_t generation) { wanted_ = generation; }
  // What another launcher is told of so many slots from `first` on, and how it is taken: by another
  // node than 0, and by node 0.
  RosterNews news(int64_t first, int64_t count) const;
  void take_places(int64_t first, const RosterNews& news);
  void take_seats(int64_t first, const RosterNews& news);

 private:
  static constexpr size_t kHostBytes = 256;
  void ring() const;
  struct Seat {
    std::atomic<int64_t> announced{0};
    std::atomic<int64_t> border{-1};
    std::atomic<uint64_t> place{0};  // in one word, so that nobody reads half of it
  };
  Seat& seat(int64_t slot) { return seats_[static_cast<size_t>(slot)]; }
  const Seat& seat(int64_t slot) const { return seats_[static_cast<size_t>(slot)]; }

  std::atomic<bool> used_{false};
  std::atomic<int> bell_{-1};
  std::atomic<int64_t> lost_{0};
  std::atomic<int64_t> wanted_{0};
  std::atomic<int64_t> port_{0};  // behind its generation; 0 while `host_` is written
  std::array<std::atomic<char>, kHostBytes> host_{};
  std::array<char, kHostBytes> own_host_{};  // is written before there are ranks
  std::array<Seat, kMost> seats_;
};

// So many ranks from that iteration on.
struct PlannedRanks {
  int64_t iteration = 0;
  int64_t ranks = 0;
};

// Reads launch.rank_plan, "0:4,120:3,200:4"; "": nothing is planned. Throws UserError(kUsage)
// unless it begins at iteration 0, goes forward, and names 1 to `most` ranks each time.
std::vector<PlannedRanks> parse_rank_plan(const std::string& text, int64_t most);

// The ranks of an iteration by that plan; 0 where there is no plan.
int64_t planned_ranks(const std::vector<PlannedRanks>& plan, int64_t iteration);

// Checks what the section says of an elastic run of so many ranks at most, on so many nodes. Throws
// UserError(kUsage).
void check_elastic(const LaunchOptions& options, const RankInfo& ranks);
// Whether the section asks for one.
inline bool is_elastic(const LaunchOptions& o) {
  return o.nproc_min || o.nnodes_min || !o.rank_plan.empty();
}

// The launcher's side, with several nodes that of node 0: which slots are at work, who is in which
// generation, whom to start.
class ElasticRanks {
 public:
  // `there`: for each slot whether its node takes part; empty: those of the board, which do.
  ElasticRanks(const LaunchOptions& options,
               RankStatusBoard& board,
               const std::vector<bool>& there = {});

  // The slots that are started at first.
  std::vector<int64_t> first_slots() const;
  // A rank's process has ended. Returns whether the run goes on without it; `in_order`: it had
  // left, or its work was done.
  bool goes_on_without(int64_t slot, bool in_order) {
    return goes_on_without_all({slot}, in_order);
  }
  // A node with these slots is lost. Returns whether the run goes on without it.
  bool goes_on_without_node(const std::vector<int64_t>& slots);
  // A node with these slots has come.
  void admit(const std::vector<int64_t>& slots);
  // Forms the next generation where one is due and all who belong to it have announced themselves.
  void consult();
  // The slots whose processes are to be started now. They count as started.
  std::vector<int64_t> take_slots_to_start(double now);
  // They could not be started.
  void could_not_start(const std::vector<int64_t>& slots);
  // monotonic_seconds() at which take_slots_to_start() may have some that it has not now; infinite
  // where only what ranks tell, or their ends, can change that.
  double next_start() const;
  int64_t members() const;  // of the present generation that are alive
  bool has_processes() const { return std::ranges::any_of(slots_, &Slot::runs); }
  bool is_member(int64_t slot) const { return slots_[static_cast<size_t>(slot)].member; }

 private:
  struct Slot {
    bool there = true;    // its node takes part
    bool runs = false;    // there is a process, or one is being started
    bool member = false;  // of the present generation
    int64_t taken = 0;    // announcements that were answered by a place
  };
  bool goes_on_without_all(const std::vector<int64_t>& slots, bool in_order);
  bool is_ready(size_t slot) const;
  bool lacks_ranks() const;
  void form(std::vector<size_t> ready);
  void dismiss(size_t slot);

  RankStatusBoard& board_;
  std::vector<Slot> slots_;
  std::vector<PlannedRanks> plan_;
  int64_t least_;
  int64_t generation_ = 0;
  bool forming_ = true;
  int64_t missing_ = 0;  // ranks that the plan asks for and nobody has started yet
  int64_t losses_ = 0;
  double start_at_ = 0;  // monotonic seconds; no process is started before
};

// What a supervisor does for an elastic run beside what it does for any other one. On another node
// than 0 it does what node 0 says. Slots are those of this node, from 0 on.
class ElasticSupervision {
 public:
  // Throws UserError(kEnvironment) where there is no eventfd. `nodes` is null with one node, of
  // which `node` is this one.
  ElasticSupervision(const LaunchOptions& options,
                     RankStatusBoard& board,
                     NodeCouncil* nodes = nullptr,
                     const RankInfo& node = {});

  std::vector<int64_t> first_slots();
  bool has_members() const;  // here or, on node 0, anywhere
  // Whether no rank of the run is left, or node 0 has said so.
  bool is_over() const;
  // For poll(): what look() waits for, and when it has to be called at the latest.
  void watch(std::vector<pollfd>& polled) const { polled.push_back({bell_.get(), POLLIN, 0}); }
  double next_deadline(double now) const;

  // Lets the next generation form where it is due, and ends processes that are stopped, as by
  // SIGSTOP or a container's freezer: they hold up all others, who go on without them. `ranks` are
  // those of the slots; stops are counted from `watch_from` on at the earliest (monotonic seconds).
  void look(std::vector<RankProcess>& ranks, double watch_from);
  std::vector<int64_t> take_slots_to_start();
  void could_not_start(const std::vector<int64_t>& slots);

  // A rank's process has ended with that status, which was `told` to it or not. Returns whether it
  // is lost, and the run goes on without it, or node 0 decides whether it does: it ended by a
  // signal that was not ours.
  bool goes_on_without(bool told, int status, const Death& death);
  // The run's exit code where no rank failed, of which those here tell this one: node 0 knows it.
  int code_of_run(int code_here) const;

 private:
  bool is_node_0() const { return ranks_.has_value(); }
  std::vector<int64_t> slots_of_node(int64_t node) const;
  bool is_member(int64_t slot) const;
  void on_event(const NodeEvent& event);
  void on_left(const NodeEvent& event);
  bool is_sound(const NodeMessage& message) const;
  void lose_node(const NodeEvent& event);
  void admit(const NodeEvent& event);
  void tell_of_loss(const Death& death) const;
  std::vector<int64_t> start(std::vector<int64_t> slots);
  void tell_others();
  std::string remaining_text() const;

  RankStatusBoard& board_;
  NodeCouncil* nodes_;
  int64_t first_;  // slot of the run that is slot 0 here
  int64_t least_nodes_;
  UniqueFd bell_;
  std::optional<ElasticRanks> ranks_;   // on node 0, or the only one
  std::set<int64_t> there_;             // on node 0: the other nodes that take part
  std::map<int64_t, RosterNews> told_;  // what each other node knows; elsewhere: node 0
  std::vector<int64_t> to_start_;       // elsewhere: slots here that node 0 wants
  std::set<int64_t> to_end_;            // slots here that are behind all others
  bool worked_ = false;                 // elsewhere: a rank here had a place
};

// A rank's side.
class ElasticRank {
 public:
  explicit ElasticRank(const RankContext& context);

  // Waits for the next generation, and returns where its ranks meet; nothing once this process is
  // dismissed. `border` is Roster::announce()'s.
  std::optional<Rendezvous> meet(int64_t border);
  int64_t generation() const { return place_.generation; }
  int64_t rank() const { return place_.rank; }
  bool is_lost() const;
  bool is_wanted() const;

 private:
  const RankContext& context_;
  Roster& roster_;
  Roster::Place place_;
};

}  // namespace gantrain
