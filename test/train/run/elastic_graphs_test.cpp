// SPDX-License-Identifier: Apache-2.0
// Elastic runs whose phases are device graphs: each generation of ranks records its own.
#include <array>
#include <cstdio>
#include <memory>

#include "launch/local/elastic.h"
#include "support/catch.h"
#include "support/reserved_port.h"
#include "support/spawn_ranks.h"
#include "support/tape_graphs.h"
#include "support/temporary_folder.h"
#include "train/run/trainer.h"
#include "train/step/toy_recipe.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"

using namespace gantrain;
namespace fs = std::filesystem;

namespace {

// Each generation has time to record its phases, which run as they are three times before.
const std::string kPlan = "0:3,8:2,16:3,24:1";
constexpr int64_t kRanks = 3;
constexpr double kKimg = 0.256;  // 32 iterations of 8 images

using Ports = std::array<ReservedPort, 4>;  // one for each generation

// One of the ranks of the plan, which trains in all generations that have a place for it.
class PlannedRank {
 public:
  PlannedRank(int64_t rank, const Ports& ports, fs::path folder)
      : rank_(rank), ports_(ports), folder_(std::move(folder)) {}

  Exit train(const std::string& graphs) {
    set_log({Level::kError, Level::kInfo, {}, ""});
    const Config config = toy_config({{"run.run_dir", folder_.string()},
                                      {"train.kimg", kKimg},
                                      {"train.uneven", "on"},
                                      {"dist.ddp_mode", "flat"},
                                      {"train.graphs", graphs}});
    const ElasticHooks hooks{.meet = [this](int64_t) { return meet(); },
                             .generation = [this] { return generation_; },
                             .lost = [] { return false; },
                             .wanted = [] { return false; },
                             .planned = [this](int64_t i) { return planned_ranks(plan_, i); },
                             .run_folder = [this] { return folder_.string(); },
                             .stop_signal = [] { return 0; }};
    return gantrain::train({.config = config,
                            .rendezvous = {},
                            .backend = BackendKind::kGloo,
                            .device = at::kCPU,
                            .recipe = toy_row(),
                            .command = "test",
                            .defaults = "",
                            .chosen = {},
                            .callbacks = {},
                            .elastic = &hooks});
  }

  bool records_anew() const { return records_anew_; }

 private:
  std::optional<Rendezvous> meet() {
    records_anew_ = records_anew_ && TapeGraphs::recorded() > recorded_before_;
    recorded_before_ = TapeGraphs::recorded();
    while (generation_ < static_cast<int64_t>(plan_.size())) {
      const auto next = static_cast<size_t>(generation_++);
      const int64_t world = plan_[next].ranks;
      if (rank_ >= world) continue;
      Rendezvous at;
      at.ranks = {
          .rank = rank_, .world = world, .local_rank = rank_, .local_world = world, .nodes = 1};
      at.master = {"127.0.0.1", ports_.at(next).number()};
      return at;
    }
    return std::nullopt;
  }

  int64_t rank_;
  const Ports& ports_;
  fs::path folder_;
  const std::vector<PlannedRanks> plan_ = parse_rank_plan(kPlan, kRanks);
  int64_t generation_ = 0;
  int64_t recorded_before_ = -1;
  bool records_anew_ = true;  // in each generation before the present one
};

// Trains by the plan. Returns how many ranks failed; one whose graphs were not recorded in each
// generation and replayed has.
int64_t failed_of_plan(const fs::path& folder, const std::string& graphs) {
  const Ports ports;
  return failed_ranks(kRanks, [&](const Rendezvous& place) {
    const TapeGraphs tapes;
    PlannedRank rank(place.ranks.rank, ports, folder);
    const Exit end = rank.train(graphs);
    const bool as_wanted =
        graphs == "off" || (rank.records_anew() && TapeGraphs::replayed() > TapeGraphs::recorded());
    if (end == Exit::kDone && as_wanted) return 0;
    std::fprintf(stderr,
                 "rank %d: exit code %d, %d works recorded, %d replays\n",
                 static_cast<int>(place.ranks.rank),
                 code_of(end),
                 static_cast<int>(TapeGraphs::recorded()),
                 static_cast<int>(TapeGraphs::replayed()));
    return 1;
  });
}

}  // namespace

TEST_CASE("GraphsAreRecordedAnewWhereRanksChange") {
  const TemporaryFolder folder;
  REQUIRE(failed_of_plan(folder / "plain", "off") == 0);
  REQUIRE(failed_of_plan(folder / "graphs", "on") == 0);
  CHECK(read_file(folder / "plain/model-000000.256.safetensors") ==
        read_file(folder / "graphs/model-000000.256.safetensors"));
}
