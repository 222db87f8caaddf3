// SPDX-License-Identifier: Apache-2.0
#include "ddp_model.h"

#include <catch2/catch.hpp>

namespace gantrain {
namespace {

// One bandwidth and latency everywhere, each rank a node of its own.
Cluster flat_cluster(double bandwidth, double latency) {
  return {{bandwidth, latency}, {bandwidth, latency}, 1};
}

// Four ranks a node; a link is 10 bytes a second within it and 5 between nodes.
Cluster two_levels() { return {{5, 0.5}, {10, 0.25}, 4}; }

// Forward 1 s, backward 10 s, update 0.5 s; gradients of 4, 2 and 6 bytes.
PhaseWork phase() { return {"D", 1, 1, 10, 0.5, {{4, 0.2}, {2, 0.5}, {6, 1}}}; }

constexpr double kEach = 1;  // bytes of a bucket that holds one gradient

Workload workload() {
  PhaseWork lazy = phase();
  lazy.name = "Dreg";
  lazy.interval = 4;
  Workload work{"net", "A net", 8};
  work.rest = 0.5;
  work.phases = {phase(), lazy};
  return work;
}

double seconds_of(const Workload& work, int64_t ranks, const Cluster& cluster) {
  return simulate_step(work, {kEach, kEach}, ranks, cluster, Overlap::kBackward).seconds;
}

TEST_CASE("OneRankAndNoBytesCostNothing") {
  CHECK(all_reduce_seconds(1e9, 1, two_levels()) == 0);
  CHECK(all_reduce_seconds(0, 64, two_levels()) == 0);
}

TEST_CASE("ARingSendsTwiceAllButOneShare") {
  // 2 messages of 50 bytes: 2 x 0.25 s and 2 x 1/2 x 100 bytes / 10.
  CHECK(all_reduce_seconds(100, 2, two_levels()) == Approx(0.5 + 10));
  // 6 messages of 25 bytes.
  CHECK(all_reduce_seconds(100, 4, two_levels()) == Approx(1.5 + 15));
  // Between nodes of one rank, 3 ranks: the ring's 4 messages of 33 bytes beat the tree, which
  // sends all bytes twice.
  CHECK(all_reduce_seconds(99, 3, flat_cluster(1, 0.5)) == Approx(2 + 132));
}

TEST_CASE("ATreeOfFewBytesIsAsDeepAsTheLogarithm") {
  const Cluster cluster = flat_cluster(1e9, 1);
  CHECK(all_reduce_seconds(1e-6, 8, cluster) == Approx(2 * 3));
  CHECK(all_reduce_seconds(1e-6, 1024, cluster) == Approx(2 * 10));
  CHECK(all_reduce_seconds(1e-6, 1000, cluster) == Approx(2 * 10));
}

TEST_CASE("LevelsArePipelinedAndNodesShareTheBytesOut") {
  // 8 ranks, 2 nodes: inside 6 x 0.25 s and 1.5 x 100 / 10 = 15 s; outside a quarter of the bytes,
  // 2 x 0.5 s and 25 / 5 = 5 s, which hides behind the 15.
  CHECK(all_reduce_seconds(100, 8, two_levels()) == Approx(1.5 + 1 + 15));
  // A slower network sets the pace: 25 / 0.5 = 50 s.
  Cluster slow = two_levels();
  slow.between.bandwidth = 0.5;
  CHECK(all_reduce_seconds(100, 8, slow) == Approx(1.5 + 1 + 50));
}

TEST_CASE("MoreRanksAndSlowerLinksNeverCostLess") {
  for (const double bytes : {1.0, 1e3, 1e6, 1e9}) {
    double last = 0, last_step = 0;
    for (int64_t ranks = 1; ranks <= 2048; ++ranks) {
      CAPTURE(bytes, ranks);
      const Cluster cluster;
      const double seconds = all_reduce_seconds(bytes, ranks, cluster);
      CHECK(seconds >= last);
      last = seconds;
      for (double Link::*property : {&Link::bandwidth, &Link::latency}) {
        for (Link Cluster::*level : {&Cluster::between, &Cluster::within}) {
          Cluster worse = cluster;
          worse.*level.*property *= property == &Link::latency ? 2 : 0.5;
          CHECK(all_reduce_seconds(bytes, ranks, worse) >= seconds);
        }
      }
      if (ranks % 64 != 1) continue;
      const double step = seconds_of(workload(), ranks, flat_cluster(10, 1e-3));
      CHECK(step >= last_step);
      last_step = step;
    }
  }
}

TEST_CASE("ABucketIsFullOnceItHoldsItsSizeAndWaitsForThoseBefore") {
  PhaseWork work = phase();
  work.gradients = {{4, 0.5}, {4, 0.2}, {4, 0.1}, {4, 1}, {1, 0.3}};
  const std::vector<Bucket> buckets = buckets_of(work, {4, 8});
  REQUIRE(buckets.size() == 3);
  CHECK(buckets[0].bytes == 4);
  CHECK(buckets[0].ready == Approx(5));
  CHECK(buckets[1].bytes == 8);
  CHECK(buckets[1].ready == Approx(5));  // 2 s by itself
  CHECK(buckets[2].bytes == 5);
  CHECK(buckets[2].ready == Approx(10));
  CHECK(buckets_of(work, {}).size() == 1);
  CHECK(buckets_of({"D", 1, 1, 1, 1, {}}, {}).empty());
}

// Two ranks, a byte a second, no latency: an all-reduce of n bytes takes n seconds.
//   backward  0 ........ 10
//   bucket 0       2 - 6
//   bucket 1           6 - 8         ready at 5, waits for the channel
//   bucket 2               10 - 16
TEST_CASE("BucketsAreSentInTurnsBehindTheBackwardPass") {
  const Cluster cluster = flat_cluster(1, 0);
  const auto buckets = buckets_of(phase(), {kEach, kEach});
  const SimulatedTime time =
      simulate_phase(phase(), buckets, /*wire=*/1, 2, cluster, Overlap::kBackward);
  CHECK(time.communication == Approx(12));
  CHECK(time.exposed == Approx(6));
  CHECK(time.seconds == Approx(1 + 10 + 6 + 0.5));
  const SimulatedTime late = simulate_phase(phase(), buckets, 1, 2, cluster, Overlap::kNone);
  CHECK(late.exposed == Approx(12));
  CHECK(late.seconds == Approx(1 + 10 + 12 + 0.5));
  const SimulatedTime half = simulate_phase(phase(), buckets, 0.5, 2, cluster, Overlap::kBackward);
  CHECK(half.exposed == Approx(3));
}

TEST_CASE("LazyPhasesCountWithTheirShareOfIterations") {
  const Cluster cluster = flat_cluster(1, 0);
  Workload work = workload();
  CHECK(work.compute() == Approx(0.5 + 11.5 * 1.25));
  CHECK(seconds_of(work, 1, cluster) == Approx(work.compute()));
  CHECK(seconds_of(work, 2, cluster) == Approx(0.5 + 17.5 * 1.25));
  work.shared_bytes = 3;
  const SimulatedTime step = simulate_step(work, {kEach, kEach}, 2, cluster, Overlap::kBackward);
  CHECK(step.seconds == Approx(0.5 + 17.5 * 1.25 + 3));
  CHECK(step.communication == Approx(12 * 1.25 + 3));
  CHECK(step.exposed == Approx(6 * 1.25 + 3));
}

TEST_CASE("WithoutBytesAStepIsItsComputing") {
  Workload work = workload();
  for (PhaseWork& each : work.phases) {
    for (GradientWork& gradient : each.gradients) gradient.bytes = 0;
  }
  const SimulatedTime step = simulate_step(work, {}, 1024, two_levels(), Overlap::kBackward);
  CHECK(step.seconds == Approx(work.compute()));
  CHECK(step.exposed == 0);
}

TEST_CASE("OverlapIsNeverSlowerThanNoneWithTheSameBuckets") {
  for (const double size : {1.0, 5.0, 100.0}) {
    for (int64_t ranks = 1; ranks <= 256; ranks *= 2) {
      for (const double bandwidth : {0.1, 1.0, 10.0}) {
        CAPTURE(size, ranks, bandwidth);
        const Cluster cluster = flat_cluster(bandwidth, 0.01);
        const auto step = [&](Overlap overlap) {
          return simulate_step(workload(), {size, size}, ranks, cluster, overlap);
        };
        CHECK(step(Overlap::kBackward).seconds <= step(Overlap::kNone).seconds);
        CHECK(step(Overlap::kBackward).communication == Approx(step(Overlap::kNone).communication));
      }
    }
  }
}

}  // namespace
}  // namespace gantrain
