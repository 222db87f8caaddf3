// SPDX-License-Identifier: Apache-2.0
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/temporary_folder.h"
#include "train/run/slow_ranks.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"

using namespace gantrain;

namespace {

std::vector<RankSpeed> healthy(size_t ranks, size_t per_node) {
  std::vector<RankSpeed> all(ranks, {.compute = 100, .copy = 10, .link = 2, .clock = 1e9});
  for (size_t i = 0; i < ranks; ++i) all[i].node = static_cast<int64_t>(i / per_node);
  all.back().link = 0;  // it has no next rank
  return all;
}

}  // namespace

TEST_CASE("WeakRanksLinksNodesAndClocksAreNamed") {
  CHECK(weak_spots(healthy(8, 4), 0.7).empty());
  auto ranks = healthy(8, 4);
  ranks[3].compute = 69;
  ranks[1].link = 1;
  CHECK(weak_spots(ranks, 0.7) ==
        std::vector<std::string>{"rank 3 computes at 69 % of the median (69 of 100)",
                                 "rank 1 sends to the next rank at 50 % of the median (1 of 2)"});
  ranks = healthy(8, 4);
  ranks[3].compute = 71;
  ranks[6].clock += 2.5;
  ranks[7].clock -= 3600;
  CHECK(weak_spots(ranks, 0.7) ==
        std::vector<std::string>{"the clock of rank 6 is 2.5 s ahead of rank 0's",
                                 "the clock of rank 7 is 3600.0 s behind rank 0's"});
  ranks = healthy(12, 4);
  for (const size_t i : {4, 5, 6, 7}) ranks[i].copy = 4;
  CHECK(weak_spots(ranks, 0.7) ==
        std::vector<std::string>{"node 1 copies at 40 % of the median (4 of 10)"});
}

TEST_CASE("RanksAreMeasuredWhereSeveralMachinesOrGpusWorkTogether") {
  const c10::Device gpu(at::kCUDA, 0), cpu(at::kCPU);
  DistOptions options;
  CHECK(!flies_before(options, {.world = 2, .nodes = 1}, cpu));
  CHECK(flies_before(options, {.world = 2, .nodes = 2}, cpu));
  CHECK(flies_before(options, {.world = 2, .nodes = 1}, gpu));
  CHECK(!flies_before(options, {.world = 1, .nodes = 1}, gpu));
  options.preflight = Preflight::kOn;
  CHECK(flies_before(options, {.world = 2, .nodes = 1}, cpu));
  CHECK(!flies_before(options, {.world = 1, .nodes = 1}, cpu));
  options.preflight = Preflight::kOff;
  CHECK(!flies_before(options, {.world = 16, .nodes = 2}, gpu));
}

TEST_CASE("APreflightSaysWhatItMeasuredAndLeavesTheGroupAsItWas") {
  const TemporaryFolder folder;
  CHECK(failed_ranks(3, [&](const Rendezvous& r) {
          const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
          if (r.ranks.rank == 0) set_log({Level::kError, Level::kInfo, folder / "log.txt", ""});
          DistOptions options;
          preflight(options, *group, at::kCPU);  // one node of CPUs: nothing
          if (r.ranks.rank == 0 && std::filesystem::exists(folder / "log.txt") &&
              !read_file(folder / "log.txt").empty())
            return 2;
          // Others compute here, too: what is found is no fault.
          options.preflight = Preflight::kOnly;
          try {
            preflight(options, *group, at::kCPU);
          } catch (const UserError& e) {
            if (e.code() != Exit::kEnvironment) throw;
          }
          at::Tensor one = torch::ones({1});
          group->sum_(one);
          return one.item<float>() == 3 ? 0 : 1;
        }) == 0);
  const std::string log = read_file(folder / "log.txt");
  for (const char* words : {"preflight 3 ranks in ",
                            "s: compute ",
                            "GFLOP/s, copy ",
                            "GB/s, link ",
                            "all-reduce of 1 MiB "})
    CHECK_THAT(log, Catch::Contains(words));
}
