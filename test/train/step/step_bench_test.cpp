// SPDX-License-Identifier: Apache-2.0
#include "train/step/step_bench.h"

#include <chrono>
#include <thread>

#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/temporary_folder.h"
#include "train/step/toy_recipe.h"
#include "util/file.h"
#include "util/text.h"

using namespace gantrain;

TEST_CASE("TimedIterationsAreCountedWithTheirTraffic") {
  const TemporaryFolder folder;
  REQUIRE(failed_ranks(2, [&](const Rendezvous& r) {
            const Config config = toy_config();
            const RecipeRow toy = toy_row();
            const StepTimes times = time_steps({config, toy, /*warm=*/1, /*steps=*/4}, r);
            write_file(folder / std::to_string(r.ranks.rank), to_json(times).dump());
            return 0;
          }) == 0);
  std::vector<StepTimes> ranks;
  for (const char* rank : {"0", "1"})
    ranks.push_back(step_times_from(Json::parse(read_file(folder / rank))));
  for (const StepTimes& times : ranks) {
    CHECK(times.seconds.size() == 4);
    CHECK(times.cpu.size() == 4);
    for (const double cpu : times.cpu) CHECK(cpu > 0);
    const PhaseTimes &D = times.phases.at("D"), &G = times.phases.at("G");
    CHECK(D.waited.size() == 4);
    CHECK(G.waited.size() == 2);  // every second iteration
    CHECK(D.bytes == 4 * (3 * 64 + 1));
    CHECK(G.bytes == 4 * 5 * 3 * 64 / 2);
    CHECK(D.collectives == 1);
    CHECK(D.buckets == 1);
    double waited = 0, all = 0;
    for (const double seconds : times.seconds) all += seconds;
    for (const auto& [name, phase] : times.phases) {
      for (const double seconds : phase.waited) {
        CHECK(seconds > 0);
        waited += seconds;
      }
    }
    CHECK(waited < all);
  }
  CHECK(communication_of(ranks).exposed > 0);
}

TEST_CASE("ExposedIsWhatTheRankThatCameLastWaits") {
  const StepTimes first{{1, 1}, {1, 1}, {{"D", {0, 1, 1, {0.5, 0.1}}}, {"G", {0, 1, 1, {0.2}}}}};
  const StepTimes second{{1, 1}, {1, 1}, {{"D", {0, 1, 1, {0.1, 0.3}}}, {"G", {0, 1, 1, {0.2}}}}};
  const Communication c = communication_of({first, second});
  CHECK(c.exposed == Approx((0.1 + 0.1 + 0.2) / 2));
  CHECK(c.skew == Approx((0.2 + 0.1 + 0.0) / 2));
}

// A row is a sample of a long run, so it holds every phase as often as that does.
TEST_CASE("RowsOfIterationsAreWholeRoundsFromTheFirstOn") {
  constexpr int64_t kRound = 4;
  std::vector<std::vector<int64_t>> rows;
  StepTimes times;
  const auto iterate = [&](int64_t i) {
    if (i == 0) rows.emplace_back();
    rows.back().push_back(i);
    if (rows.size() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  time_unwatched(times, iterate, kRound, at::kCPU, {.rows = 2, .seconds = 0.015});
  REQUIRE(rows.size() == 2 + 2);
  for (const auto& row : rows) {
    CHECK(row.size() % kRound == 0);
    for (size_t i = 0; i < row.size(); ++i) CHECK(row[i] == static_cast<int64_t>(i));
  }
  CHECK(rows[0].size() == kRound);
  CHECK(rows[1].size() == kRound);
  CHECK(rows[2].size() == rows[3].size());
  REQUIRE(times.unwatched.size() == 2);
  for (const double seconds : times.unwatched) CHECK(seconds >= 0.001);
  CHECK(times.mean_iteration() == Approx((times.unwatched[0] + times.unwatched[1]) / 2));
}
