// SPDX-License-Identifier: Apache-2.0
#include "train/step_bench.h"

#include <catch2/catch.hpp>

#include "spawn_ranks.h"
#include "temporary_folder.h"
#include "toy_recipe.h"
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
