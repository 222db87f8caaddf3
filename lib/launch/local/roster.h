// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/where/network.h"
#include "util/rank_info.h"

namespace gantrain {

// What launchers tell each other of their rosters: the one that leads the places of a node's slots,
// and that of another node which of its ranks wait.
struct RosterNews {
  struct Seat {
    int64_t announced = 0;
    int64_t border = -1;
    int64_t left = 0;
    int64_t place = 0;
    bool runs = false;  // there is a process, or one is being started
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
  field("left", s.left);
  field("place", s.place);
  field("runs", s.runs);
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
// each other. The launcher that leads says who is in the next generation; what ranks and launcher
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
  // The slot's rank has left the last generation that it had a place in, and waits for another one.
  bool waits(int64_t slot) const;
  void put(int64_t slot, const Place& place);
  void forget(int64_t slot);
  void lose(int64_t generation) { lost_ = generation; }
  void want(int64_t generation) { wanted_ = generation; }
  // What another launcher is told of so many slots from `first` on, and how it is taken: by one
  // that does not lead, and by the one that does. To lead from now on, it takes both.
  RosterNews news(int64_t first, int64_t count) const;
  void take_places(int64_t first, const RosterNews& news);
  void take_seats(int64_t first, const RosterNews& news);

 private:
  static constexpr size_t kHostBytes = 256;
  void ring() const;
  struct Seat {
    std::atomic<int64_t> announced{0};
    std::atomic<int64_t> border{-1};
    std::atomic<int64_t> left{0};  // the generation of the place that the rank had as it announced
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

}  // namespace gantrain
