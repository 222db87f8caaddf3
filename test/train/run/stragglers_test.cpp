// SPDX-License-Identifier: Apache-2.0
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/step_setup.h"
#include "support/temporary_folder.h"
#include "train/run/slow_ranks.h"
#include "train/step/toy_recipe.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

using namespace gantrain;

TEST_CASE("ARankIsBehindTheMedianOfTheOthers") {
  // Three ranks, two parts.
  const std::vector<std::vector<double>> three = {{1, 2}, {1.6, 2.1}, {1, 2}};
  const RankTime slow = time_of(three, 1);
  CHECK(slow.rank == 1);
  CHECK(slow.seconds == Approx(3.7));
  CHECK(slow.others == Approx(3));
  CHECK(slow.behind() == Approx(0.7 / 3));
  CHECK(slow.part == 0);
  CHECK(time_of(three, 0).behind() == Approx(3 / 3.35 - 1));
  // One fast rank makes no other slow, and of two the slower one is behind the other.
  for (const size_t rank : {0, 1, 2, 3}) CHECK(time_of({{1}, {2}, {2}, {2}}, rank).behind() <= 0);
  CHECK(time_of({{1}, {1.2}}, 1).behind() == Approx(0.2));
}

namespace {

// So many iterations of a step of one phase that the rank computes for so long.
void iterate(Stragglers& ranks, const Phase& phase, int64_t iterations, double seconds) {
  StepReport report;
  report.phases.push_back({&phase});
  report.phases.back().computed = seconds;
  for (int64_t i = 0; i < iterations; ++i) ranks.add(report, 0.001, seconds + 0.002);
}

// Ranks that measure each other, with rank 0's log and rows in a folder.
struct MeasuredRanks {
  const Rendezvous& place;
  std::shared_ptr<Group> group;
  Reporter reporter;
  StepOnCpu step;
  Stragglers ranks;

  MeasuredRanks(const Rendezvous& r, const TemporaryFolder& folder)
      : place(r),
        group(Group::join(r, BackendKind::kGloo, at::kCPU, 20)),
        reporter(group, 1000, 0),
        step(toy_row(), toy_config()),
        ranks(group, step->recipe().phases(), 0) {
    if (r.ranks.rank != 0) return;
    set_log({Level::kError, Level::kInfo, folder / "log.txt", ""});
    reporter.open(folder.path(), 0);
  }

  // So many iterations of the second phase, each rank's of so many seconds.
  void tick(int64_t iterations, const std::vector<double>& seconds, int64_t images) {
    iterate(ranks,
            step->recipe().phases()[1],
            iterations,
            seconds[static_cast<size_t>(place.ranks.rank)]);
    ranks.compare(reporter, images);
    reporter.tick({images, 1, 1, 0.5});
  }
};

}  // namespace

TEST_CASE("ARankThatFallsBehindIsNamedOnceAndWhenItHasCaughtUp") {
  const TemporaryFolder folder;
  CHECK(failed_ranks(3, [&](const Rendezvous& r) {
          MeasuredRanks all(r, folder);
          const std::vector<double> slow = {0.1, 0.1, 0.2}, alike = {0.1, 0.1, 0.1};
          all.tick(49, slow, 1000);  // too few yet
          all.tick(1, slow, 2000);
          all.tick(50, slow, 3000);  // said already
          all.tick(50, alike, 4000);
          all.reporter.finish();
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

TEST_CASE("EachRankThatFellBehindIsToldOfWhenItHasCaughtUpWhoeverIsTheSlowestThen") {
  const TemporaryFolder folder;
  CHECK(failed_ranks(4, [&](const Rendezvous& r) {
          MeasuredRanks all(r, folder);
          all.tick(50, {0.1, 0.2, 0.1, 0.1}, 1000);
          all.tick(50, {0.1, 0.2, 0.3, 0.1}, 2000);  // rank 1 is behind still, and named already
          all.tick(50, {0.1, 0.1, 0.3, 0.1}, 3000);
          all.tick(50, {0.2, 0.1, 0.1, 0.1}, 4000);
          all.reporter.finish();
          return 0;
        }) == 0);
  std::string told;
  for (const std::string& line : split(read_file(folder / "log.txt"), '\n')) {
    for (const char* what : {" computes ", " is no longer behind"}) {
      const size_t at = line.find("rank ");
      if (at != std::string::npos && line.find(what) != std::string::npos)
        told += line.substr(at, 6) + what + ";";
    }
  }
  CHECK(told ==
        "rank 1 computes ;rank 2 computes ;rank 1 is no longer behind;"
        "rank 2 is no longer behind;rank 0 computes ;");
}
