// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/options.h"
#include "launch/where/network.h"
#include "util/rank_info.h"

namespace gantrain {

class RankStatusBoard;
struct Death;
struct RankContext;
struct RankProcess;

// An elastic run (--nproc MIN:MAX) goes on when ranks are lost, and takes new ones in. The ranks
// that work together are a generation. A rank's process has a slot for life, and in each generation
// that it belongs to a rank of its own. The launcher says who is in the next generation; what ranks
// and launcher tell each other about it stands in memory that they share.
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
  // Where rank 0 of that generation listens; 0: it does not yet.
  void set_port(int64_t generation, int64_t port) { port_ = generation << 16 | port; }
  int64_t port(int64_t generation) const;

  // The launcher. Ranks ring `bell`, an eventfd that they inherit, when they have told something.
  void begin(int bell) {
    bell_ = bell;
    used_ = true;
  }
  bool is_used() const { return used_; }                                  // the run is elastic
  int64_t announced(int64_t slot) const { return seat(slot).announced; }  // how often
  int64_t border(int64_t slot) const { return seat(slot).border; }
  void put(int64_t slot, const Place& place);
  void forget(int64_t slot);
  void lose(int64_t generation) { lost_ = generation; }
  void want(int64_t generation) { wanted_ = generation; }

 private:
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
  std::atomic<int64_t> port_{0};
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
inline bool is_elastic(const LaunchOptions& o) { return o.nproc_min || !o.rank_plan.empty(); }

// The launcher's side: which slots are at work, who is in which generation, whom to start.
class ElasticRanks {
 public:
  ElasticRanks(const LaunchOptions& options, RankStatusBoard& board);

  // The slots that are started at first.
  std::vector<int64_t> first_slots() const;
  // A rank's process has ended. Returns whether the run goes on without it; `in_order`: it had
  // left, or its work was done.
  bool goes_on_without(int64_t slot, bool in_order);
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
  bool is_member(int64_t slot) const { return slots_[static_cast<size_t>(slot)].member; }

 private:
  struct Slot {
    bool runs = false;    // there is a process, or one is being started
    bool member = false;  // of the present generation
    int64_t taken = 0;    // announcements that were answered by a place
  };
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

// What a supervisor does for an elastic run beside what it does for any other one.
class ElasticSupervision {
 public:
  // Throws UserError(kEnvironment) where there is no eventfd.
  ElasticSupervision(const LaunchOptions& options, RankStatusBoard& board);

  std::vector<int64_t> first_slots() const { return ranks_.first_slots(); }
  bool has_members() const { return ranks_.members() > 0; }
  // For poll(): what look() waits for, and when it has to be called at the latest.
  void watch(std::vector<pollfd>& polled) const { polled.push_back({bell_.get(), POLLIN, 0}); }
  double next_deadline(double now) const;

  // Lets the next generation form where it is due, and ends processes that are stopped, as by
  // SIGSTOP or a container's freezer: they hold up all others, who go on without them. `ranks` are
  // those of the slots; stops are counted from `watch_from` on at the earliest (monotonic seconds).
  void look(std::vector<RankProcess>& ranks, double watch_from);
  // ElasticRanks' own.
  std::vector<int64_t> take_slots_to_start() { return ranks_.take_slots_to_start(now()); }
  void could_not_start(const std::vector<int64_t>& slots) { ranks_.could_not_start(slots); }

  // A slot's process has ended with that status, which was `told` to it or not. Returns whether it
  // is lost, and the run goes on without it: it ended by a signal that was not ours.
  bool goes_on_without(int64_t slot, int status, bool told);
  void tell_of_loss(const Death& death) const;

 private:
  static double now();

  UniqueFd bell_;
  ElasticRanks ranks_;
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
