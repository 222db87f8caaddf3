// SPDX-License-Identifier: Apache-2.0
#include "ddp_plan.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "config/message.h"
#include "ddp_units.h"
#include "temporary_folder.h"
#include "util/error.h"
#include "util/file.h"

namespace gantrain {
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
