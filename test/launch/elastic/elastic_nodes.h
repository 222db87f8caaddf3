// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "launch/launch_helper.h"
#include "launch/local/elastic.h"
#include "launch/local/rank.h"
#include "support/reserved_port.h"
#include "support/temporary_folder.h"
#include "util/error.h"

namespace gantrain {

// What ranks and test tell each other, beside the pids of the ranks of three nodes (0, 1, 2).
constexpr size_t kDeaths = 4;       // that launchers have written down
constexpr size_t kFailing = 5;      // 1: rank 1 is to fail, 3: it has, and all are told to end
constexpr size_t kSaving = 6;       // n + 1: rank n takes its time, at a stop and before it trains
constexpr size_t kEnd = 8;          // the work of all ranks is done
constexpr size_t kWorld = 9;        // of the newest generation
constexpr size_t kGeneration = 10;  // its number
constexpr size_t kRank0 = 11;       // the slot of its rank 0
constexpr size_t kNode1 = 12;       // 1: its rank fails as it begins, 2: it hangs, once
constexpr size_t kLoading = 13;     // n + 1: a rank of node n that begins comes no further
constexpr size_t kHanging = 14;     // n: rank n hangs
constexpr size_t kFork = 15;        // 1: fork servers load for ever

// A rank of node 1 that hangs, and one of node 0 that waits for it.
inline void hang_once(const RankContext& c, const ElasticRank& rank) {
  const bool hangs = c.ranks().node_rank == 1;
  if (hangs) shared_number(kNode1) = 0;
  while (hangs || !rank.is_lost()) usleep(1000);
}

// Rank 1 ends with an error, once, and rank 0 does not heed that all are told to end.
inline int fail_once(const RankContext& c) {
  if (c.rank() == 1) {
    while (shared_number(kFailing) == 1) usleep(1000);
    return code_of(Exit::kInternal);
  }
  sigset_t stop, told;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigprocmask(SIG_BLOCK, &stop, nullptr);
  shared_number(kFailing) = 2;
  for (sigemptyset(&told); sigismember(&told, SIGTERM) == 0; sigpending(&told)) usleep(1000);
  shared_number(kFailing) = 3;
  sleep_for_ever();
}

inline void take_time(const RankContext& c) {
  while (shared_number(kSaving) == c.rank() + 1) usleep(1000);
}

// A rank that trains until all is done, as far as a launcher can tell.
inline int train_for_ever(const RankContext& c) {
  if (c.ranks().node_rank == 1 && shared_number(kNode1) == 1)
    fail(Exit::kEnvironment, "the data is another one here");
  while (shared_number(kLoading) == c.rank() + 1) usleep(1000);
  ElasticRank rank(c);
  int64_t border = -1;
  while (const auto meeting = rank.meet(border)) {
    border += 1;
    shared_number(static_cast<size_t>(c.rank())) = getpid();
    if (rank.rank() == 0) {
      shared_number(kRank0) = c.rank();
      shared_number(kWorld) = meeting->ranks.world;
      shared_number(kGeneration) = rank.generation();
      ::close(meeting->listen_fd);
    }
    take_time(c);
    c.slot().set_phase("training");  // so that it has the whole grace at a stop
    c.slot().beat();
    c.slot().trace.skip_to(c.ranks().node_rank == 1 ? 39 : 40);
    if (meeting->ranks.world == 2 && shared_number(kNode1) == 2) hang_once(c, rank);
    for (; !rank.is_lost() && !rank.is_wanted(); ++border) {
      while (c.rank() > 0 && shared_number(kHanging) == c.rank()) usleep(1000);
      c.slot().beat();
      if (shared_number(kEnd) == 1) return 0;
      if (const int64_t fails = shared_number(kFailing); fails == 1 || fails == 2)
        return fail_once(c);
      if (*c.stop != 0) {
        take_time(c);
        return code_of(Exit::kStopped);
      }
      usleep(1000);
    }
  }
  return 0;
}

inline LoadTrainer trains() {
  clear_shared_numbers();
  return [] {
    while (shared_number(kFork) == 1) usleep(1000);
    return RankMain([](const RankContext& c, const char*) { return train_for_ever(c); });
  };
}

inline LaunchOptions beginning_with(int64_t nodes) {
  LaunchOptions options;
  options.nnodes_min = nodes;
  return options;
}

// Until so many ranks work in a later generation than that one; if two, each has worked.
inline bool work(int64_t ranks, int64_t generation = 0) {
  const auto holds = [&] {
    return shared_number(kWorld) == ranks && shared_number(kGeneration) > generation &&
           (ranks == 1 || shared_number(0) * shared_number(1) != 0);
  };
  return eventually(holds, 60);
}

inline void end_work() { shared_number(kEnd) = 1; }

inline void kill_rank_of(size_t node) { kill(static_cast<pid_t>(shared_number(node)), SIGKILL); }

// Kills the rank of one of two nodes. Returns whether another one comes to work there, as the first
// one does at once; the next one does after a second.
inline bool is_replaced_on(size_t node) {
  const int64_t pid = shared_number(node), generation = shared_number(kGeneration);
  kill_rank_of(node);
  return eventually([&] { return shared_number(node) != pid; }, 60) && work(2, generation);
}

// The nodes of a run in a folder of its own, each with a rank. At least one must be there, and all
// are started at once but for those that come later.
struct Nodes {
  explicit Nodes(int64_t number, LaunchOptions of_all = beginning_with(1), int64_t later = 0)
      : count(number), options(of_all) {
    for (int64_t node = 0; node < count - later; ++node) start(node);
  }
  Launcher& operator[](size_t node) { return *launchers[node]; }
  // The same command once more.
  void start(int64_t node) {
    launchers.resize(static_cast<size_t>(count));
    launchers[static_cast<size_t>(node)] = std::make_unique<Launcher>(
        load, gantrain::node(node, port, {count}), options, folder.path().string());
  }

  const TemporaryFolder folder;
  const LoadTrainer load = trains();
  const ReservedPort port;
  const int64_t count;
  const LaunchOptions options;
  std::vector<std::unique_ptr<Launcher>> launchers;
};

}  // namespace gantrain
