// SPDX-License-Identifier: Apache-2.0
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "core/torch.h"
#include "distributed/meeting.h"
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "util/error.h"

using namespace gantrain;

namespace {

const DeviceIdentity kFirst{"node1", "boot-a", "0000:3B:00.0", "1111"};
const DeviceIdentity kSecond{"node1", "boot-a", "0000:5E:00.0", "2222"};

c10::intrusive_ptr<c10d::Store> store_of(const Rendezvous& r, double seconds) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(r.master.port);
  options.isServer = r.ranks.rank == 0;
  options.waitWorkers = false;
  options.timeout = std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
  if (options.isServer) options.masterListenFd = r.listen_fd;
  return c10::make_intrusive<c10d::TCPStore>(r.master.host, options);
}

std::string refusal(c10d::Store& store, const RankInfo& ranks, const DeviceIdentity& mine) {
  try {
    check_one_rank_per_device(store, ranks, mine);
  } catch (const UserError& e) {
    return (e.code() == Exit::kEnvironment ? "" : "another code: ") + std::string(e.what());
  }
  return "";
}

// What all ranks say that have those GPUs, which is the same.
std::string refusal_of_all(const std::vector<DeviceIdentity>& gpus) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::string> said(gpus.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < gpus.size(); ++i) {
    threads.emplace_back([&, i] {
      RankInfo ranks{.rank = static_cast<int64_t>(i)};
      ranks.world = static_cast<int64_t>(gpus.size());
      said[i] = refusal(*store, ranks, gpus[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : said) CHECK(text == said[0]);
  return said[0];
}

// So that the store's server, in rank 0, outlives what the others ask of it.
void meet(c10d::Store& store, const RankInfo& ranks) {
  store.set("end/" + std::to_string(ranks.rank), "here");
  for (int64_t i = 0; i < ranks.world; ++i) store.get("end/" + std::to_string(i));
  if (ranks.rank == 0) {
    for (int64_t i = 1; i < ranks.world; ++i) store.get("left/" + std::to_string(i));
  } else {
    store.set("left/" + std::to_string(ranks.rank), "yes");
  }
}

}  // namespace

TEST_CASE("AnIdentitySurvivesTheStore") {
  const DeviceIdentity back = device_identity(to_text(kFirst));
  CHECK(back.host == kFirst.host);
  CHECK(back.boot == kFirst.boot);
  CHECK(back.pci == kFirst.pci);
  CHECK(back.uuid == kFirst.uuid);
  CHECK_THROWS_WITH(device_identity("half"), Catch::Contains("\"half\""));
}

TEST_CASE("OneGpuIsOneMachinesPciDevice") {
  DeviceIdentity other_machine = kFirst;
  other_machine.boot = "boot-b";  // with the same name, as containers of two machines may have
  other_machine.uuid = "3333";
  CHECK(refusal_of_all({kFirst, kSecond, other_machine}).empty());
  CHECK(refusal_of_all({kFirst, kSecond, other_machine, kSecond}) ==
        "ranks 1 and 3 are both on one GPU (node1, PCI 0000:5E:00.0, 2222): NCCL needs a GPU for "
        "each rank; start one rank per GPU (--nproc), and let each see its own "
        "(CUDA_VISIBLE_DEVICES)");
}

TEST_CASE("ContainersOfOneMachineAreOneMachine") {
  DeviceIdentity container = kFirst;
  container.host = "container-7";
  CHECK_THAT(refusal_of_all({kFirst, container}), Catch::StartsWith("ranks 0 and 1 are both"));
}

TEST_CASE("TwoMigInstancesOfOneGpuAreRefusedAsNcclDoes") {
  DeviceIdentity instance = kFirst;
  instance.uuid = "4444";
  CHECK_THAT(shared_device_text(0, kFirst, 1, instance),
             Catch::StartsWith("ranks 0 and 1 are both on MIG instances of one GPU (node1, PCI "
                               "0000:3B:00.0, 1111 and 4444): NCCL needs a GPU for each rank and "
                               "takes two instances for the same one; "));
}

TEST_CASE("EveryRankRefusesASharedGpuInTheSameWords") {
  CHECK(failed_ranks(3, [](const Rendezvous& r) {
          const auto store = store_of(r, 20);
          const DeviceIdentity mine = r.ranks.rank == 1 ? kSecond : kFirst;
          const std::string said = refusal(*store, r.ranks, mine);
          meet(*store, r.ranks);
          return said == shared_device_text(0, kFirst, 2, kFirst) && !said.empty() ? 0 : 1;
        }) == 0);
}

TEST_CASE("RanksOnGpusOfTheirOwnPass") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const auto store = store_of(r, 20);
          const std::string said = refusal(*store, r.ranks, r.ranks.rank == 0 ? kFirst : kSecond);
          meet(*store, r.ranks);
          return said.empty() ? 0 : 1;
        }) == 0);
}

TEST_CASE("ARankThatDoesNotComeIsNamed") {
  auto store = c10::make_intrusive<c10d::HashStore>();
  store->setTimeout(std::chrono::milliseconds(100));
  RankInfo ranks;
  ranks.world = 2;
  CHECK_THAT(refusal(*store, ranks, kFirst),
             Catch::StartsWith("rank 0: rank 1 has not told its GPU: "));
}

TEST_CASE("WithoutTheCudaLibraryNoGpuIsNamed") {
  CHECK_THROWS_WITH(read_device_identity(0), Catch::Contains("the CUDA library is not loaded"));
}
