// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "bench/ddp/plan.h"
#include "config/schema.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"

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

Workload two_phases() {
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
      const double step = seconds_of(two_phases(), ranks, flat_cluster(10, 1e-3));
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
  Workload work = two_phases();
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
  Workload work = two_phases();
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
          return simulate_step(two_phases(), {size, size}, ranks, cluster, overlap);
        };
        CHECK(step(Overlap::kBackward).seconds <= step(Overlap::kNone).seconds);
        CHECK(step(Overlap::kBackward).communication == Approx(step(Overlap::kNone).communication));
      }
    }
  }
}

}  // namespace

namespace {

constexpr double kMiB = 1024 * 1024;

// 40 gradients of 4 MiB, ready one after the other in a backward pass of 100 ms.
Workload workload() {
  PhaseWork phase{"D", 1, 0.05, 0.1, 0.01, {}};
  for (int i = 1; i <= 40; ++i) phase.gradients.push_back({4 * kMiB, i / 40.0});
  Workload work{"net", "A net", 8};
  work.phases = {phase};
  work.rest = 0.04;
  return work;
}

std::string refusal(const std::function<void()>& call, Exit code = Exit::kUsage) {
  try {
    call();
  } catch (const UserError& e) {
    CHECK(e.code() == code);
    return e.what();
  }
  return "";
}

TEST_CASE("RankCountsDoubleAndEndAtTheAskedOne") {
  CHECK(rank_counts(1) == std::vector<int64_t>{1});
  CHECK(rank_counts(4) == std::vector<int64_t>{1, 2, 4});
  CHECK(rank_counts(8) == std::vector<int64_t>{1, 2, 4, 8});
  CHECK(rank_counts(1024) == std::vector<int64_t>{1, 8, 16, 32, 64, 128, 256, 512, 1024});
  CHECK(rank_counts(100) == std::vector<int64_t>{1, 8, 16, 32, 64, 100});
}

TEST_CASE("TheBestBucketIsTheBestOfAllThatAreTried") {
  PlanRequest request;
  for (const double latency : {0.0, 1e-5, 1e-3}) {
    request.cluster.between.latency = latency;
    for (const PlanRow& row : plan_of(workload(), request).rows) {
      CAPTURE(latency, row.ranks, row.best_mb);
      CHECK(row.best.seconds <= row.step.seconds);
      for (const double mb : {1.0, 5.0, 10.0, 25.0, 50.0, 100.0}) {
        Workload other = workload();
        other.bucket_mb = mb;
        PlanRequest one = request;
        one.ranks = row.ranks;
        CHECK(row.best.seconds <= 1.0011 * plan_of(other, one).rows.back().step.seconds);
      }
    }
  }
}

TEST_CASE("LatencyMakesBucketsLargerAndNoBytesKeepTheConfiguredSize") {
  PlanRequest request;
  request.cluster.between = {50e9, 5e-3};
  CHECK(plan_of(workload(), request).rows.back().best_mb > 25);
  Workload silent = workload();
  silent.phases[0].gradients.clear();
  const PlanRow last = plan_of(silent, request).rows.back();
  CHECK(last.best_mb == 25);
  CHECK(last.efficiency() == Approx(1));
}

TEST_CASE("CommunicationShowsInTheFirstRowThatSpendsTwoPercentOnItAlone") {
  PlanRequest request;
  CHECK_FALSE(plan_of(workload(), request).shows_at.has_value());
  request.cluster.between.bandwidth = 0.5e9;
  const Plan plan = plan_of(workload(), request);
  REQUIRE(plan.shows_at);
  for (const PlanRow& row : plan.rows) {
    CAPTURE(row.ranks);
    if (row.ranks < *plan.shows_at) CHECK(row.step.exposed <= kShows * row.step.seconds);
    if (row.ranks == *plan.shows_at) CHECK(row.step.exposed > kShows * row.step.seconds);
  }
}

TEST_CASE("GraphsAreChosenWhereTheySaveMoreThanTheOverlapHides") {
  PlanRequest request;
  const PlanRow row = plan_of(workload(), request).rows.back();
  CHECK(row.graphs_must_save() > 0);
  CHECK_FALSE(row.graphs_are_best);
  request.graphs_save = 1.01 * row.graphs_must_save();
  CHECK(plan_of(workload(), request).rows.back().graphs_are_best);
  request.graphs_save = 0.99 * row.graphs_must_save();
  CHECK_FALSE(plan_of(workload(), request).rows.back().graphs_are_best);
  request.graphs_save = 0.5;
  CHECK_THAT(refusal([&] { plan_of(workload(), request); }),
             Catch::Contains("--graphs-save-ms 500") && Catch::Contains("200.0 ms"));
}

TEST_CASE("AGlobalBatchDividesTheComputing") {
  PlanRequest request;
  request.ranks = 64;
  request.global_batch = 64;
  const Plan plan = plan_of(workload(), request);
  CHECK(plan.rows.front().compute == Approx(8 * 0.2));  // 64 pictures instead of 8
  CHECK(plan.rows.back().compute == Approx(0.2 / 8));
  CHECK(plan.rows.back().efficiency() <
        plan_of(workload(), {.ranks = 64}).rows.back().efficiency());
  request.global_batch = 32;
  CHECK_THAT(refusal([&] { plan_of(workload(), request); }), Catch::Contains("--simulate 32"));
}

TEST_CASE("GivenTimesReplaceTheMeasuredOnes") {
  Workload work = workload();
  use_given_times(work, {{"", 0.4}});
  CHECK(work.compute() == Approx(0.4));
  CHECK(work.phases[0].backward == Approx(0.2));
  work = workload();
  use_given_times(work, {{"D", 0.032}, {"rest", 0.001}});
  CHECK(work.compute() == Approx(0.033));
  CHECK(work.phases[0].forward == Approx(0.01));
  CHECK(work.phases[0].update == Approx(0.002));
  CHECK_THAT(refusal([] {
               Workload other = workload();
               use_given_times(other, {{"D", 1}, {"G", 1}});
             }),
             Catch::Contains("net has D, rest"));
  CHECK_THAT(refusal([] {
               Workload other = workload();
               use_given_times(other, {{"rest", 1}});
             }),
             Catch::Contains("lacks D"));
}

TEST_CASE("UnitsAreBytesUnlessBitsAreSaid") {
  CHECK(bandwidth_of("--bandwidth", "50") == 50e9);
  CHECK(bandwidth_of("--bandwidth", "12.5GB/s") == 12.5e9);
  CHECK(bandwidth_of("--bandwidth", "400Gb/s") == 50e9);
  for (const char* text : {"0", "-1", "", "GB/s", "400Gbps", "nan", "inf", "1e12", "50 MB/s"}) {
    CAPTURE(text);
    CHECK_THAT(refusal([&] { bandwidth_of("--bandwidth", text); }),
               Catch::StartsWith(std::string("--bandwidth ") + text + ": gigabytes"));
  }
  CHECK(latency_of("--latency", "10") == Approx(10e-6));
  CHECK(latency_of("--latency", "2.5us") == Approx(2.5e-6));
  CHECK(latency_of("--latency", "0") == 0);
  for (const char* text : {"-1", "", "10ms", "nan", "1e9"}) {
    CAPTURE(text);
    CHECK_THAT(refusal([&] { latency_of("--latency", text); }), Catch::Contains("microseconds"));
  }
  const auto times = given_times_of("--compute-ms", "D=60,G=80");
  REQUIRE(times.size() == 2);
  CHECK(times[1].phase == "G");
  CHECK(times[1].seconds == Approx(0.08));
  for (const char* text : {"0", "-3", "fast", "D=60,D=70", "D=60,70", "=3", "D=0"}) {
    CAPTURE(text);
    CHECK_FALSE(refusal([&] { given_times_of("--compute-ms", text); }).empty());
  }
}

TEST_CASE("WorkloadsAreReadBackFromTheOutputThatHoldsThem") {
  const TemporaryFolder folder;
  const auto file = folder / "plan.json";
  const Json line = {{"bench", "ddp"}, {"nets", {{{"workload", message_of(workload())}}}}};
  for (const std::string& text : {"a table\n" + line.dump() + "\n", line.dump(2)}) {
    write_file(file, text);
    const std::vector<Workload> read = read_workloads(file);
    REQUIRE(read.size() == 1);
    CHECK(message_of(read[0]) == message_of(workload()));
  }
  const auto broken = [&](const Json& value) {
    write_file(file, value.dump());
    return refusal([&] { read_workloads(file); }, Exit::kInput);
  };
  CHECK_THAT(broken({{"bench", "step"}}), Catch::Contains("no workload"));
  CHECK_THAT(broken({1, 2}), Catch::Contains("no workload"));
  Json wrong = line;
  wrong["nets"][0]["workload"]["phases"][0].erase("forward");
  CHECK_THAT(broken(wrong), Catch::Contains("phases[0].forward"));
  wrong = line;
  wrong["nets"][0]["workload"]["phases"][0]["gradients"][3]["ready"] = 1.5;
  CHECK_THAT(broken(wrong), Catch::Contains("D: gradients: ready of net is out of range"));
  wrong = line;
  wrong["nets"][0]["workload"]["phases"][0]["interval"] = 0;
  CHECK_THAT(broken(wrong), Catch::Contains("interval"));
}

}  // namespace

}  // namespace gantrain
