// SPDX-License-Identifier: Apache-2.0
#include "core/device.h"
#include "distributed/group.h"
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"
#include "train/step/training_step.h"
#include "util/file.h"

using namespace gantrain;

namespace {

constexpr int64_t kAsked = 20, kMost = 20'000;

// The last rank asks for a stop from iteration kAsked on. Returns the iteration in which this rank
// hears of it; -1 if never, -2 if it hears of what nobody asked for.
int64_t heard_at(const Rendezvous& r) {
  const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
  RequestExchange exchange(at::kFloat, group->rank());
  for (int64_t i = 0; i < kMost; ++i) {
    const bool asks = i >= kAsked && group->rank() == group->world() - 1;
    at::Tensor sum = exchange.packed({asks, false});
    group->sum_(sum);
    const RankRequests heard = exchange.heard(sum, i);
    if (heard.save || heard.affordable != 0xf || heard.affordable_at > i) return -2;
    if (heard.stop) return i;
  }
  return -1;
}

// What every rank of such a world said.
std::vector<int64_t> all_heard_at(int64_t world, bool reads_wait) {
  const TemporaryFolder folder;
  REQUIRE(failed_ranks(world, [&](const Rendezvous& r) {
            std::optional<AssumeReadsWait> assumed;
            if (reads_wait) assumed.emplace();
            write_file(folder / std::to_string(r.ranks.rank), std::to_string(heard_at(r)));
            return 0;
          }) == 0);
  std::vector<int64_t> all;
  for (int64_t rank = 0; rank < world; ++rank)
    all.push_back(std::stoll(read_file(folder / std::to_string(rank))));
  return all;
}

}  // namespace

TEST_CASE("WhereReadsAreFreeAllHearInTheIterationInWhichOneAsks") {
  for (const int64_t world : {1, 2, 3}) {
    CAPTURE(world);
    CHECK(all_heard_at(world, false) == std::vector<int64_t>(static_cast<size_t>(world), kAsked));
  }
}

TEST_CASE("WhereReadsWaitAllHearInOneIterationLater") {
  for (const int64_t world : {1, 2, 3}) {
    CAPTURE(world);
    const std::vector<int64_t> heard = all_heard_at(world, true);
    CHECK(heard.front() > kAsked);
    for (const int64_t iteration : heard) CHECK(iteration == heard.front());
  }
}

TEST_CASE("ASaveIsGrantedOnceForEachRequest") {
  const AssumeReadsWait assumed;
  RequestExchange exchange(at::kFloat, 0);
  std::vector<int64_t> granted;
  bool asks = false;  // as rank 0 does, until it has saved
  for (int64_t i = 0; i < 60; ++i) {
    if (i == 30 || i == 40) asks = true;
    if (exchange.heard(torch::tensor({0.0F, asks ? 1.0F : 0.0F, 5.0F}), i).save) {
      granted.push_back(i);
      asks = false;
    }
  }
  CHECK(granted == std::vector<int64_t>{31, 41});
}

TEST_CASE("SlowIterationsAreLookedAtEachTime") {
  // With iterations of a second and more a stop is heard in the one after the next.
  const AssumeReadsWait assumed;
  RequestExchange exchange(at::kFloat, 0);
  const auto sum_with = [](bool stop) {
    return torch::tensor({(stop ? 1.0F : 0.0F) + 5 * 131072.0F, 0.0F, 5.0F});
  };
  int64_t heard = -1;
  for (int64_t i = 0; i < 40 && heard < 0; ++i) {
    const RankRequests all = exchange.heard(sum_with(i >= 30), i);
    if (all.stop) heard = i;
    if (i == 31) {
      CHECK(all.affordable == 5);
      CHECK(all.affordable_at == 30);  // as of when rank 0 said so
    }
  }
  CHECK(heard == 31);
}
