// SPDX-License-Identifier: Apache-2.0
#include "distributed/meeting.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "util/error.h"
#include "util/failure_text.h"
#include "util/host_name.h"
#include "util/nodes_text.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace {

// Keys in the store.
constexpr const char* kSizes = "meeting/sizes";          // of the rank that came first
constexpr const char* kObjection = "meeting/objection";  // of the rank that objected first
constexpr const char* kVerdict = "meeting/verdict";      // rank 0's: "ok" or why not
constexpr const char* kHeard = "meeting/heard";          // how many ranks have read the verdict
std::string came_key(int64_t rank) { return fmt::format("meeting/came/{}", rank); }
std::string place_key(int64_t rank) { return fmt::format("meeting/place/{}", rank); }

constexpr const char* kOk = "ok";
// Seconds that rank 0 keeps the store for those who have not read why there is no run, and seconds
// that others wait for its verdict beyond the time that it has itself.
constexpr double kLinger = 2;
constexpr double kVerdictSlack = 5;

// Short pauses at first, so that ranks that come together lose no time.
class Pause {
 public:
  void operator()() {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
    seconds_ = std::min(seconds_ * 1.5, 0.1);
  }

 private:
  double seconds_ = 0.0005;
};

std::string sizes_of(const RankInfo& r) { return sizes_text(r.world, r.nodes); }

// Tells rank 0 why there can be no run, and returns it; of several objections rank 0 hears the
// first.
std::string object(c10d::Store& store, std::string text) {
  const std::vector<uint8_t> none;
  store.compareSet(kObjection, none, {text.begin(), text.end()});
  return text;
}

std::string read(c10d::Store& store, const std::string& key) {
  const std::vector<uint8_t> bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

// Announces this rank and returns "ok", or objects to what it finds and returns the objection.
std::string arrive(c10d::Store& store, const RankInfo& r) {
  const std::string place = fmt::format("node {} ({})", r.node_rank, host_name());
  const std::string mine = fmt::format("{}|{}", sizes_of(r), place);
  const std::vector<uint8_t> none;
  const std::vector<uint8_t> told = store.compareSet(kSizes, none, {mine.begin(), mine.end()});
  const std::vector<std::string> first = split(std::string(told.begin(), told.end()), '|');
  if (first[0] != sizes_of(r)) {
    return object(store,
                  disagreement_text(
                      first[0], first.size() > 1 ? first[1] : "another node", sizes_of(r), place));
  }
  if (store.add(came_key(r.rank), 1) > 1) {
    return object(
        store,
        started_twice_text(fmt::format("rank {}", r.rank), read(store, place_key(r.rank)), place));
  }
  store.set(place_key(r.rank), std::vector<uint8_t>(place.begin(), place.end()));
  return kOk;
}

// Where nodes have different numbers of ranks, which node a rank would be on is not known here, and
// ranks alone are named.
std::string absent_text(const std::vector<int64_t>& absent, const RankInfo& r) {
  if (r.local_world * r.nodes != r.world) return ranks_text(absent);
  std::vector<NodeRanks> nodes;
  for (const int64_t rank : absent) {
    const int64_t node = rank / r.local_world;
    if (nodes.empty() || nodes.back().node != node)
      nodes.push_back({.node = node, .first = rank, .last = rank});
    nodes.back().last = rank;
  }
  return nodes_text(nodes);
}

// Rank 0: waits for all, or for an objection, and returns the verdict.
std::string judge(c10d::Store& store, const RankInfo& r, double timeout_seconds) {
  const double end = monotonic_seconds() + timeout_seconds;
  std::vector<std::string> places;
  for (int64_t rank = 0; rank < r.world; ++rank) places.push_back(place_key(rank));
  for (Pause pause;; pause()) {
    if (store.check({kObjection})) return read(store, kObjection);
    if (store.check(places)) return kOk;
    if (monotonic_seconds() > end) break;
  }
  std::vector<int64_t> absent;
  for (int64_t rank = 0; rank < r.world; ++rank) {
    if (!store.check({place_key(rank)})) absent.push_back(rank);
  }
  return fmt::format(
      "{} did not come within {} (--timeout): does gantrain run there, with the same --nnodes and "
      "its own --node-rank, and does it reach this host's port?",
      absent_text(absent, r),
      short_duration(timeout_seconds));
}

void linger(c10d::Store& store, const RankInfo& r) {
  const double end = monotonic_seconds() + kLinger;
  for (Pause pause; store.add(kHeard, 0) < r.world - 1 && monotonic_seconds() < end;) pause();
}

std::string verdict_of_rank_0(c10d::Store& store, double timeout_seconds) {
  const double end = monotonic_seconds() + timeout_seconds + kVerdictSlack;
  for (Pause pause; !store.check({kVerdict}); pause()) {
    if (monotonic_seconds() > end) return "rank 0 has not said that all ranks are there";
  }
  return read(store, kVerdict);
}

}  // namespace

void meet(c10d::Store& store, const RankInfo& ranks, double timeout_seconds) {
  std::string verdict;
  try {
    verdict = arrive(store, ranks);
    if (ranks.rank == 0) {
      verdict = judge(store, ranks, timeout_seconds);
      store.set(kVerdict, std::vector<uint8_t>(verdict.begin(), verdict.end()));
      if (verdict != kOk) linger(store, ranks);
    } else if (verdict == kOk) {
      verdict = verdict_of_rank_0(store, timeout_seconds);
      if (verdict != kOk) store.add(kHeard, 1);
    }  // else it ends with its own objection, also where the others came and began before it
  } catch (const std::exception& e) {
    fail(Exit::kEnvironment,
         "rank {}: the store at rank 0 was lost while the ranks came together: {}",
         ranks.rank,
         cause_line(e.what()));
  }
  if (verdict != kOk) throw UserError(Exit::kEnvironment, verdict);
}

}  // namespace gantrain
