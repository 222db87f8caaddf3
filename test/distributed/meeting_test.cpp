// SPDX-License-Identifier: Apache-2.0
#include "distributed/meeting.h"

#include <unistd.h>

#include <algorithm>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "distributed/group.h"
#include "launch/local/processes.h"
#include "launch/where/network.h"
#include "support/catch.h"
#include "util/error.h"
#include "util/system.h"

using namespace gantrain;

namespace {

// What meet() throws for each of these ranks, which come at the same time; "" where it returns.
std::vector<std::string> meetings(
    const std::vector<RankInfo>& ranks,
    double timeout = 10,
    const c10::intrusive_ptr<c10d::Store>& store = c10::make_intrusive<c10d::HashStore>()) {
  std::vector<std::string> heard(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        meet(*store, ranks[i], timeout);
      } catch (const UserError& e) {
        heard[i] = e.code() == Exit::kEnvironment ? e.what() : "another exit code";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return heard;
}

// Rank `local` of node `node`, of two nodes with two ranks each.
RankInfo of_four(int64_t node, int64_t local) {
  return {.rank = 2 * node + local,
          .world = 4,
          .local_rank = local,
          .local_world = 2,
          .node_rank = node,
          .nodes = 2};
}

// Counts what is asked of the store by one rank.
class CountedStore : public c10d::PrefixStore {
 public:
  explicit CountedStore(c10::intrusive_ptr<c10d::Store> store)
      : c10d::PrefixStore("counted", std::move(store)) {}

  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    ++requests;
    c10d::PrefixStore::set(key, value);
  }
  std::vector<uint8_t> compareSet(const std::string& key,
                                  const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& desired) override {
    ++requests;
    return c10d::PrefixStore::compareSet(key, expected, desired);
  }
  std::vector<uint8_t> get(const std::string& key) override {
    ++requests;
    return c10d::PrefixStore::get(key);
  }
  int64_t add(const std::string& key, int64_t value) override {
    ++requests;
    return c10d::PrefixStore::add(key, value);
  }
  bool check(const std::vector<std::string>& keys) override {
    ++requests;
    return c10d::PrefixStore::check(keys);
  }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    ++requests;
    c10d::PrefixStore::wait(keys, timeout);
  }

  int64_t requests = 0;
};

c10::intrusive_ptr<c10d::TCPStore> tcp_store(int64_t port, bool serves, int64_t listens = -1) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.isServer = serves;
  options.waitWorkers = false;
  options.timeout = std::chrono::seconds(60);
  if (serves) options.masterListenFd = static_cast<int>(listens);
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

}  // namespace

// 128 nodes of 8 GPUs, in one process: what a rank asks of the one store does not grow with them.
TEST_CASE("AThousandRanksMeetAtOneStoreWithAFewRequestsEach") {
  constexpr int64_t kRanks = 1024, kOfNode = 8;
  need_descriptors(2 * kRanks + 100, "this test");
  ask_name_servers_briefly();  // as each rank does
  Listener listener = listen_on(0, kLoopback);
  const auto server = tcp_store(listener.port, true, ::dup(listener.socket.get()));
  std::vector<std::string> problems(kRanks);
  std::vector<int64_t> requests(kRanks);
  std::vector<std::thread> ranks;
  const double begun = monotonic_seconds();
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank, at = static_cast<size_t>(rank)] {
      const RankInfo info{.rank = rank,
                          .world = kRanks,
                          .local_rank = rank % kOfNode,
                          .local_world = kOfNode,
                          .node_rank = rank / kOfNode,
                          .nodes = kRanks / kOfNode};
      try {
        CountedStore store(tcp_store(listener.port, false));
        meet(store, info, 60);
        check_one_rank_per_device(
            store,
            info,
            {"host", std::to_string(info.node_rank), std::to_string(info.local_rank), "u"});
        requests[at] = store.requests;
      } catch (const std::exception& e) {
        problems[at] = e.what();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  UNSCOPED_INFO("joined in " << monotonic_seconds() - begun << " s");
  CHECK(problems == std::vector<std::string>(kRanks));
  CHECK(*std::ranges::max_element(requests) <= 20);
}

TEST_CASE("RanksThatAllComeMeet") {
  const auto heard = meetings({of_four(0, 0), of_four(0, 1), of_four(1, 0), of_four(1, 1)});
  CHECK(heard == std::vector<std::string>(4, ""));
}

TEST_CASE("ANodeThatDoesNotComeIsNamedOnAllThatDid") {
  const double start = monotonic_seconds();
  const auto heard = meetings({of_four(0, 0), of_four(0, 1), of_four(1, 1)}, 1);
  for (const std::string& text : heard)
    CHECK_THAT(text, Catch::Contains("node 1 (rank 2) did not come within 1s"));
  CHECK(monotonic_seconds() - start < 50);
}

TEST_CASE("OfUnevenNodesTheRanksAloneAreNamed") {
  // Two ranks on node 0, one each on nodes 1 and 2.
  const auto of_uneven = [](int64_t rank) {
    return RankInfo{
        .rank = rank, .world = 4, .local_rank = rank, .local_world = 2, .node_rank = 0, .nodes = 3};
  };
  for (const std::string& text : meetings({of_uneven(0), of_uneven(1)}, 1))
    CHECK_THAT(text, Catch::StartsWith("ranks 2, 3 did not come within 1s"));
}

TEST_CASE("ARankStartedTwiceIsNamedWithItsPlacesOnAllThatWait") {
  const auto heard = meetings({of_four(0, 0), of_four(0, 1), of_four(1, 0), of_four(1, 0)});
  for (const std::string& text : {heard[0], heard[1], heard[2] + heard[3]})
    CHECK_THAT(text, Catch::Contains("rank 2 was started twice: on node 1 ("));
}

TEST_CASE("ARankStartedTwiceThatComesWhenAllHaveBegunIsTheOnlyOneRefused") {
  auto store = c10::make_intrusive<c10d::HashStore>();
  const std::vector<RankInfo> all = {of_four(0, 0), of_four(0, 1), of_four(1, 0), of_four(1, 1)};
  CHECK(meetings(all, 10, store) == std::vector<std::string>(4, ""));
  CHECK(objection_in(*store).empty());
  const std::string refused = meetings({of_four(1, 0)}, 10, store).front();
  CHECK_THAT(refused,
             Catch::Contains("rank 2 was started twice: on node 1 (") &&
                 Catch::Contains("and on node 1 ("));
  CHECK(objection_in(*store) == refused);  // which the run that goes on says, too
}

TEST_CASE("AMasterWithoutAnAddressIsGivenUpOnAfterOneTimeout") {
  CHECK(unresolved_text("127.0.0.1").empty());
  for (const int64_t rank : {0, 1}) {
    Rendezvous meeting{.ranks = {.rank = rank, .world = 2},
                       .master = {.host = "no-such-host.invalid", .port = 29500}};
    CHECK_THROWS_WITH(
        Group::join(meeting, BackendKind::kGloo, at::kCPU, 1),
        Catch::Contains("no rendezvous at no-such-host.invalid:29500 within 1s (--timeout): host "
                        "no-such-host.invalid: "));
  }
}

TEST_CASE("NodesThatDisagreeOnTheSizeAreNamed") {
  RankInfo other = of_four(1, 0);
  other.rank = 1;
  other.world = 2;
  other.local_world = 1;
  const auto heard = meetings({of_four(0, 0), of_four(0, 1), other});
  for (const std::string& text : heard) {
    CHECK_THAT(text,
               Catch::Contains("4 ranks on 2 nodes on node 0") &&
                   Catch::Contains("2 ranks on 2 nodes on node 1"));
  }
}

TEST_CASE("WhileNcclIsSilentItIsSaidWhichRanksWaitForWhich") {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto told = [&] { return connecting_text(*store, of_four(0, 0), 20, "10.0.0.7"); };
  note_connecting(*store, of_four(0, 0));
  note_connecting(*store, of_four(0, 1));
  note_connecting(*store, of_four(1, 1));
  CHECK_THAT(told(),
             Catch::Contains("has not connected the 4 ranks after 20s: the others wait for node 1 "
                             "(rank 2)") &&
                 Catch::Contains("NCCL_SOCKET_IFNAME") && Catch::Contains("10.0.0.7"));
  note_connecting(*store, of_four(1, 0));
  CHECK_THAT(told(), Catch::Contains("all have begun to connect and wait for each other"));
}

TEST_CASE("WhereNcclFailsTheWaysOutAreTold") {
  const auto ways = [](const std::string& last) {
    return nccl_ways_out("NCCL error in: a.hpp:1, unhandled cuda error, NCCL version 2.28.9\n" +
                         last);
  };
  const std::string gloo = "--backend gloo";
  CHECK_THAT(ways("Last error:\nCuda failure 1 'invalid argument'"),
             Catch::Contains("NCCL_NVLS_ENABLE=0") && Catch::Contains(gloo));
  CHECK_THAT(
      ways("Last error:\nCuda failure 802 'system not yet initialized'"),
      Catch::Contains("nvidia-fabricmanager") && Catch::Contains(gloo) && !Catch::Contains("NVLS"));
  CHECK_THAT(ways("Last error:\nError while creating shared memory segment /dev/shm/nccl-x"),
             Catch::Contains("--shm-size=1g") && Catch::Contains(gloo));
  CHECK_THAT(ways("Last error:\nsocketStartConnect: Connect to 10.0.0.7 failed : No route to host"),
             Catch::Contains("NCCL_SOCKET_IFNAME") && Catch::Contains(gloo));
  CHECK(ways("Last error:\n") ==
        gloo + " works without NCCL, but slowly; NCCL_DEBUG=INFO says more");
  CHECK(nccl_ways_out("Connection closed by peer [127.0.0.1]:4242").empty());
}
