// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <atomic>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "core/torch.h"
#include "distributed/backend.h"
#include "distributed/group.h"
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "util/system.h"

using namespace gantrain;

namespace {

struct Ends {
  std::atomic<int> shut_down{0}, aborted{0}, destroyed{0};
  double hang = 0;  // seconds that shutdown() and abort() take, as where a peer is dead
};

struct EndingBackend final : c10d::Backend {
  explicit EndingBackend(std::shared_ptr<Ends> e) : Backend(0, 2), ends(std::move(e)) {}
  ~EndingBackend() override { ++ends->destroyed; }
  const std::string getBackendName() const override { return "gloo"; }
  void shutdown() override {
    ++ends->shut_down;
    wait();
  }
  void abort() override {
    ++ends->aborted;
    wait();
  }
  void wait() const { ::usleep(static_cast<useconds_t>(ends->hang * 1e6)); }
  std::shared_ptr<Ends> ends;
};

c10::intrusive_ptr<c10d::ProcessGroup> group_with(const std::shared_ptr<Ends>& ends) {
  auto group =
      c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(), 0, 2);
  const auto type = c10d::ProcessGroup::BackendType::GLOO;
  group->setBackend(
      at::kCPU,
      type,
      c10::make_intrusive<CountingBackend>(c10::make_intrusive<EndingBackend>(ends), at::kCPU));
  group->setDefaultBackend(type);
  return group;
}

}  // namespace

TEST_CASE("AGroupWhoseWorkIsDoneIsShutDown") {
  const auto ends = std::make_shared<Ends>();
  CHECK(shut_down(group_with(ends), at::kCPU, 20));
  CHECK(ends->shut_down == 1);
  CHECK(ends->aborted == 0);
}

TEST_CASE("AShutdownThatWaitsForADeadPeerIsLeftAlone") {
  const auto ends = std::make_shared<Ends>();
  ends->hang = 300;
  const double start = monotonic_seconds();
  const auto group = group_with(ends);
  CHECK_FALSE(shut_down(group, at::kCPU, 0.1));
  CHECK(monotonic_seconds() - start < 50);
}

TEST_CASE("AnAbandonedGroupIsNeitherShutDownNorDestroyedAndIsAbortedLast") {
  const auto ends = std::make_shared<Ends>();
  abandon(group_with(ends), at::kCPU);
  CHECK(ends->shut_down + ends->aborted + ends->destroyed == 0);
  abort_abandoned_groups(20);
  CHECK(ends->aborted == 1);
  CHECK(ends->shut_down + ends->destroyed == 0);
}

TEST_CASE("AnAbortThatHangsHoldsNobodyUp") {
  const auto ends = std::make_shared<Ends>();
  ends->hang = 300;
  abandon(group_with(ends), at::kCPU);
  const double start = monotonic_seconds();
  abort_abandoned_groups(0.1);
  CHECK(monotonic_seconds() - start < 50);
}

TEST_CASE("WithoutAFailureThereIsNothingToAbort") {
  const double start = monotonic_seconds();
  abort_abandoned_groups(300);
  CHECK(monotonic_seconds() - start < 50);
}

// A rank that throws leaves its group at once, whatever its peer does, and says why.
TEST_CASE("AFailedRankDoesNotWaitForItsPeers") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const double start = monotonic_seconds();
          try {
            const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 60);
            if (r.ranks.rank == 1) throw std::runtime_error("a bug");
            at::Tensor x = torch::ones({2});
            group->sum_(x);
          } catch (const std::runtime_error& e) {
            if (r.ranks.rank == 1) abort_abandoned_groups(1);
            const bool right = r.ranks.rank == 0 || std::string(e.what()) == "a bug";
            return right && monotonic_seconds() - start < 50 ? 0 : 1;
          }
          return 2;
        }) == 0);
}
