// SPDX-License-Identifier: Apache-2.0
#include "train/run/stragglers.h"

#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/step_setup.h"
#include "support/temporary_folder.h"
#include "train/step/toy_recipe.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

using namespace gantrain;

TEST_CASE("ARankIsBehindTheMedianOfTheOthers") {
  // Three ranks, two parts.
  CHECK(!find_straggler({{1, 2}, {1, 2}, {1, 2.4}}, 0.15));
  const auto found = find_straggler({{1, 2}, {1.6, 2.1}, {1, 2}}, 0.15);
  REQUIRE(found);
  CHECK(found->rank == 1);
  CHECK(found->seconds == Approx(3.7));
  CHECK(found->others == Approx(3));
  CHECK(found->part == 0);
  // One fast rank makes no other slow, and of two the slower one is behind the other.
  CHECK(!find_straggler({{1}, {2}, {2}, {2}}, 0.15));
  CHECK(find_straggler({{1}, {1.2}}, 0.15)->rank == 1);
}

namespace {

// So many iterations of a step of one phase that the rank computes for so long.
void iterate(Stragglers& ranks, const Phase& phase, int64_t iterations, double seconds) {
  StepReport report;
  report.phases.push_back({&phase});
  report.phases.back().computed = seconds;
  for (int64_t i = 0; i < iterations; ++i) ranks.add(report, 0.001, seconds + 0.002);
}

}  // namespace

TEST_CASE("ARankThatFallsBehindIsNamedOnceAndWhenItHasCaughtUp") {
  const TemporaryFolder folder;
  CHECK(failed_ranks(3, [&](const Rendezvous& r) {
          const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
          if (r.ranks.rank == 0) set_log({Level::kError, Level::kInfo, folder / "log.txt", ""});
          Reporter reporter(group, 1000, 0);
          if (r.ranks.rank == 0) reporter.open(folder.path(), 0);
          StepOnCpu step(toy_row(), toy_config());
          const std::vector<Phase>& phases = step->recipe().phases();
          Stragglers ranks(group, phases, 0);
          const auto tick = [&](int64_t iterations, double slow, int64_t images) {
            iterate(ranks, phases[1], iterations, r.ranks.rank == 2 ? slow : 0.1);
            ranks.compare(reporter, images);
            reporter.tick({images, 1, 1, 0.5});
          };
          tick(49, 0.2, 1000);  // too few yet
          tick(1, 0.2, 2000);
          tick(50, 0.2, 3000);  // said already
          tick(50, 0.1, 4000);
          reporter.finish();
          return 0;
        }) == 0);
  const std::vector<std::string> rows = split(trim(read_file(folder / "stats.jsonl")), '\n');
  REQUIRE(rows.size() == 4);
  CHECK(!Json::parse(rows[0]).contains("Ranks/behind"));
  for (const size_t row : {1, 2}) {
    CHECK(Json::parse(rows[row])["Ranks/behind"]["mean"].get<double>() ==
          Approx(0.202 / 0.102 - 1));
    CHECK(Json::parse(rows[row])["Ranks/slowest"]["mean"] == 2);
  }
  const std::string log = read_file(folder / "log.txt");
  const std::string words =
      fmt::format("rank 2 ({}) computes 98 % longer than the others", host_name());
  CHECK_THAT(log, Catch::Contains(words));
  CHECK_THAT(log, Catch::Contains("over 50 iterations from 0 to 2 kimg; it loses most in \"G\""));
  CHECK_THAT(log, Catch::Contains("rank 2 is no longer behind the others"));
  CHECK(log.find(words) == log.rfind(words));
}
