// SPDX-License-Identifier: Apache-2.0
#include "ddp_table/ddp_table.h"

#include "launch/local/supervise.h"
#include "support/catch.h"

using namespace gantrain;

namespace {

std::vector<std::string> run_ranks(int64_t world,
                                   const std::function<std::string(const Rendezvous&)>& body) {
  return run_local_ranks(world, 100, body);
}

const CellResult& find(const std::vector<CellResult>& all,
                       TableWay way,
                       bool find_unused,
                       bool progressive) {
  for (const CellResult& r : all) {
    if (r.cell.settings.way == way && r.cell.settings.find_unused == find_unused &&
        r.cell.progressive == progressive)
      return r;
  }
  throw std::logic_error("no such cell");
}

// Parameters of the static GAN, counted by hand (table_gan.cpp).
constexpr int64_t kG = 8 * 16 * 16 + 16 + 16 * 3 * 16 + 3;
constexpr int64_t kD = 32 * 3 * 16 + 32 + 32 * 16 + 1;

}  // namespace

TEST_CASE("EveryCellOfTheTableDoesWhatIsKnownOfIt") {
  const std::vector<CellResult> all = measure_ddp_table(run_ranks);
  REQUIRE(all.size() == 14);
  for (const CellResult& r : all) {
    INFO(r.text());
    CHECK_THAT(r.text(), Catch::StartsWith(expected_text(r.cell)));
  }
  UNSCOPED_INFO(ddp_table_text(all));
  // One reducer a network costs its parameters' bytes, and nothing of the other's.
  const CellResult& own = find(all, TableWay::kOwn, false, false);
  CHECK(own.phases.at("G").bytes == 4 * kG);
  CHECK(own.phases.at("D").bytes == 4 * kD);
  CHECK(own.phases.at("D").collectives == 1);
  // One for the GAN twice as much, and a bitmap of its eight tensors.
  const CellResult& whole = find(all, TableWay::kWholeDynamic, true, false);
  for (const char* phase : {"G", "D"}) CHECK(whole.phases.at(phase).bytes == 4 * (kG + kD + 8));
  CHECK(own.from_one_process <= 1.2e-7);
}

TEST_CASE("AnAverageInsideTheReducerCostsThreeTimes") {
  const CellResult r =
      measure_cell({{TableWay::kWholeDynamic, true, /*average=*/true}, false}, run_ranks);
  CHECK(r.text() == "OK");
  const double both = r.phases.at("G").bytes + r.phases.at("D").bytes;
  const double ratio = both / (4 * (kG + kD));
  CHECK(ratio > 2.9);
  CHECK(ratio < 3.3);
}

TEST_CASE("AnAverageInsideTheWholeModelIsNeverReady") {
  const CellResult r =
      measure_cell({{TableWay::kWholeModel, false, /*average=*/true}, false}, run_ranks);
  CHECK_THAT(r.text(), Catch::StartsWith(expected_text(r.cell)));
}

TEST_CASE("ACellSaysWhatHappened") {
  CellResult r;
  CHECK(r.text() == "OK");
  r.from_one_process = 0.5;
  CHECK(r.text() == "0.5 from one process");
  r.not_reduced = true;
  CHECK(r.text() == "ranks differ");
  r.error = "Expected";
  r.failed_at = 2;
  CHECK(r.text() == "error at iteration 2, not reduced before: Expected");
  CHECK(ddp_table_text({r}).find("! default") != std::string::npos);
  CHECK(ddp_table_json({r})[0]["expected"] == false);
}
