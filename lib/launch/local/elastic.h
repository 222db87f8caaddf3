// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launch/local/roster.h"
#include "launch/nodes/node_council.h"
#include "launch/options.h"
#include "launch/where/network.h"
#include "util/rank_info.h"

namespace gantrain {

class RankStatusBoard;
struct Death;
struct RankContext;
struct RankProcess;

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

// The launcher's side, with several nodes that of the one that leads: which slots are at work, who
// is in which generation, whom to start.
class ElasticRanks {
 public:
  // `there`: for each slot whether its node takes part; empty: those of the board, which do.
  ElasticRanks(const LaunchOptions& options,
               RankStatusBoard& board,
               const std::vector<bool>& there = {});

  // Goes on with a run whose leading launcher is lost, as the roster has it. `runs`: for each slot
  // whether it has a process. Returns whether enough are left that have the run's memory.
  bool take_over(const std::vector<bool>& runs);

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
  };
  int64_t least() const;
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
  bool begins_ = true;   // none of the first ranks could not be started
  int64_t missing_ = 0;  // ranks that the plan asks for and nobody has started yet
  int64_t losses_ = 0;
  double start_at_ = 0;  // monotonic seconds; no process is started before
};

// What a supervisor does for an elastic run beside what it does for any other one. Where another
// node leads, it does what that one says; where this node leads in another's place, it first asks
// the others how far they are. Slots are those of this node, from 0 on.
class ElasticSupervision {
 public:
  // Throws UserError(kEnvironment) where there is no eventfd. `nodes` is null with one node, of
  // which `node` is this one.
  ElasticSupervision(const LaunchOptions& options,
                     RankStatusBoard& board,
                     NodeCouncil* nodes = nullptr,
                     const RankInfo& node = {});

  std::vector<int64_t> first_slots();
  bool is_member(int64_t slot) const;
  // Whether ranks have worked here that are not lost or, on the node that leads, anywhere.
  bool has_had_members() const;
  // Whether no rank of the run is left, or the node that leads has said so.
  bool is_over() const;
  // For poll(): what look() waits for, and when it has to be called at the latest.
  void watch(std::vector<pollfd>& polled) const { polled.push_back({bell_.get(), POLLIN, 0}); }
  double next_deadline(double now) const;

  // Lets the next generation form where it is due, says which slots are to be started, and ends
  // processes that are stopped, as by SIGSTOP or a container's freezer: they hold up all others,
  // who go on without them. `ranks` are those of the slots; stops are counted from `watch_from` on
  // at the earliest (monotonic seconds).
  void look(std::vector<RankProcess>& ranks, double watch_from);
  std::vector<int64_t> take_slots_to_start();  // of this node, when it can start them
  void could_not_start(const std::vector<int64_t>& slots);
  // At a stop: none is started any more, of which who leads has to know.
  void start_none();

  // A rank's process has ended with that status, which was `told` to it or not. Returns whether it
  // is lost, and the run goes on without it, or another node decides whether it does: it ended by a
  // signal that was not ours.
  bool goes_on_without(bool told, int status, const Death& death);
  // The run's exit code where no rank failed; `stop_signal`: by which it was stopped, or 0.
  int code_of_run(int stop_signal) const;

 private:
  bool leads() const { return ranks_.has_value(); }
  // The launcher that led is lost, this one is to lead, and others have not said yet how far they
  // are.
  bool takes_over() const { return lost_.has_value(); }
  std::vector<int64_t> slots_of_node(int64_t node) const;
  std::vector<bool> slots_there() const;
  void note_code(int code);
  void on_event(const NodeEvent& event);
  void on_left(const NodeEvent& event);
  bool is_sound(const NodeMessage& message) const;
  bool has_enough_nodes() const;
  void lose_node(const NodeEvent& event);
  void admit(const NodeEvent& event);
  void on_new_leader(const NodeEvent& event);
  void on_roster(const NodeEvent& event);
  void take_over_if_all_are_known();
  void tell_of_loss(const Death& death) const;
  std::vector<int64_t> start(const std::vector<int64_t>& slots);
  void tell_others();
  std::string remaining_text() const;

  LaunchOptions options_;
  RankStatusBoard& board_;
  NodeCouncil* nodes_;
  int64_t first_;  // slot of the run that is slot 0 here
  int64_t most_nodes_;
  int64_t least_nodes_;
  UniqueFd bell_;
  std::optional<ElasticRanks> ranks_;   // on the node that leads, or the only one
  std::set<int64_t> there_;             // there: the other nodes that take part
  std::map<int64_t, RosterNews> told_;  // what each other node knows; elsewhere: who leads
  std::vector<int64_t> to_start_;       // slots here that who leads wants
  std::set<int64_t> to_end_;            // slots here that are behind all others
  std::set<int64_t> run_;               // slots here that have a process or soon will
  bool worked_ = false;                 // elsewhere: a rank here had a place
  std::optional<int> code_;             // with which members have left: a stop's if one has
  std::optional<NodeEvent> lost_;       // while takes_over(): who led
  std::set<int64_t> unknown_;           // and the nodes that have not said how far they are
  std::vector<bool> runs_;              // and for each slot of the run whether it has a process
  std::vector<NodeEvent> later_;        // and newcomers, who have to wait
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
