// SPDX-License-Identifier: Apache-2.0
#include "distributed/meeting.h"

#include <unistd.h>

#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

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

}  // namespace

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
  CHECK_THAT(meetings({of_four(1, 0)}, 10, store).front(),
             Catch::Contains("rank 2 was started twice: on node 1 (") &&
                 Catch::Contains("and on node 1 ("));
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
