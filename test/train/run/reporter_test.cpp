// SPDX-License-Identifier: Apache-2.0
#include "train/run/reporter.h"

#include <ATen/record_function.h>

#include "core/device.h"
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/step_setup.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"
#include "train/step/toy_recipe.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

using namespace gantrain;

TEST_CASE("ARowHoldsTheMeansOverAllRanks") {
  const TemporaryFolder folder;
  CHECK(failed_ranks(2, [&](const Rendezvous& r) {
          const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
          Reporter reporter(group, 1000, 0);
          if (r.ranks.rank == 0) reporter.open(folder.path(), 0);
          reporter.record("Loss/scores/real", torch::full({3}, static_cast<double>(r.ranks.rank)));
          reporter.record("Loss/G/loss", torch::tensor(2.0));
          reporter.tick({64, 1, 1, 0.5});
          reporter.finish();
          return 0;
        }) == 0);
  const Json row = Json::parse(read_file(folder / "stats.jsonl"));
  CHECK(row["Loss/scores/real"]["num"] == 6);
  CHECK(row["Loss/scores/real"]["mean"] == 0.5);
  CHECK(row["Loss/G/loss"]["num"] == 2);
  CHECK(row["Progress/kimg"]["mean"] == 0.064);
  for (const char* key :
       {"Progress/tick", "Timing/sec_per_kimg", "Resources/cpu_mem_gb", "timestamp"})
    CHECK(row.contains(key));
}

TEST_CASE("ARowThatALostRankHasWrittenIsNotWrittenAgain") {
  const TemporaryFolder folder;
  const auto rows = [&](const char* file) {
    const std::string text = read_file(folder / file);
    return std::ranges::count(text, '\n');
  };
  StepOnCpu step(toy_row(), toy_config({}));
  const auto report = [&](int64_t resumed_at, int64_t images) {
    Reporter reporter(step.group(), 1000, 0);
    reporter.open(folder.path(), resumed_at);
    reporter.tick({images, images / 16, 1, 0.5});
    reporter.metric({{"metric", "swd"}, {"results", {{"swd", 3.0}}}}, "model.safetensors", images);
    reporter.finish();
  };
  report(0, 304);
  report(304, 304);
  CHECK(rows("stats.jsonl") == 1);
  CHECK(rows("metric-swd.jsonl") == 1);
  report(0, 0);  // a run that begins in a folder in which another one has begun
  report(0, 0);
  CHECK(rows("stats.jsonl") == 3);
  report(304, 320);
  CHECK(rows("stats.jsonl") == 4);
  CHECK(rows("metric-swd.jsonl") == 4);
}

TEST_CASE("ALossThatIsNotFiniteStopsAllRanks") {
  CHECK(failed_ranks(2, [&](const Rendezvous& r) {
          const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
          Reporter reporter(group, 1000, 0);
          reporter.record("Loss/G/loss", torch::tensor(r.ranks.rank == 1 ? NAN : 1.0));
          try {
            reporter.tick({64, 1, 1, 0.5});
          } catch (const UserError& e) {
            return e.code() == Exit::kDiverged && std::string(e.what()).find("Loss/G/loss") == 0
                       ? 0
                       : 1;
          }
          return 1;
        }) == 0);
}

namespace {

// The row of stats.jsonl of five iterations, of which the third has gradients that are not finite,
// without what no two runs share.
Json row_of_a_run_with_a_bad_step(bool reads_wait) {
  std::optional<AssumeReadsWait> assumed;
  if (reads_wait) assumed.emplace();
  const TemporaryFolder folder;
  StepOnCpu step(toy_row(), toy_config({{"optim.clip_norm", 0.01}}));
  Reporter reporter(step.group(), 1000, 0);
  reporter.open(folder.path(), 0);
  for (int64_t i = 0; i < 5; ++i) {
    at::Tensor pictures = toy_pictures(8, i);
    if (i == 2) pictures[0].fill_(NAN);
    reporter.record(step.run(pictures, i));
  }
  reporter.tick({40, 5, 1, 0.5});
  reporter.finish();
  Json row = Json::parse(read_file(folder / "stats.jsonl"));
  for (const char* key :
       {"timestamp", "Timing/comm", "Timing/sec_per_kimg", "Resources/cpu_mem_gb"})
    row.erase(key);
  return row;
}

}  // namespace

TEST_CASE("StepsThatAreLeftOutAreCountedAndTheirLossesNotReportedWhereverTheVerdictLies") {
  const Json row = row_of_a_run_with_a_bad_step(false);
  CHECK(row["AMP/D/skipped"]["mean"] == 1);
  CHECK(row["AMP/G/skipped"]["mean"] == 0);
  CHECK(row["Loss/D/loss"]["num"] == 4);
  CHECK_FALSE(row["Loss/D/loss"].contains("bad"));
  CHECK(row["Loss/G/loss"]["num"] == 3);
  CHECK(row["Gradients/D/norm"]["num"] == 4);
  CHECK(row_of_a_run_with_a_bad_step(true).dump(1) == row.dump(1));
}

namespace {

// The operators that compute or copy while it lives, on this thread; views are none.
class SeenOperators {
 public:
  SeenOperators() {
    seen.clear();
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& f)
                                       -> std::unique_ptr<at::ObserverContext> {
          const std::string name = f.name();
          for (const char* view : {"aten::detach", "detach", "aten::reshape", "aten::view"})
            if (name == view) return nullptr;
          seen.push_back(name);
          return nullptr;
        }).scopes({at::RecordScope::FUNCTION}));
  }
  ~SeenOperators() { at::removeCallback(handle_); }
  SeenOperators(const SeenOperators&) = delete;
  SeenOperators& operator=(const SeenOperators&) = delete;

  static inline std::vector<std::string> seen;

 private:
  at::CallbackHandle handle_;
};

}  // namespace

TEST_CASE("WhatAnIterationReportsIsTakenByOneOperator") {
  StepOnCpu trained(toy_row(), toy_config());
  const AssumeReadsWait assumed;
  StepReport step;
  step.phases.push_back({&trained->recipe().phases().front()});
  PhaseReport& report = step.phases.front();
  const at::Tensor number = torch::ones({}), some = torch::ones({7});
  report.losses = {number, number};
  report.statistics = {{"Loss/scores/real", some}, {"Loss/signs/real", some}};
  report.verdict = {torch::zeros({1}), std::nullopt, {}, number};
  step.statistics = {{"Progress/augment", number}};
  Reporter reporter(trained.group(), 1000, 0);
  const SeenOperators seen;
  reporter.record(step);
  reporter.record(step);
  CHECK(SeenOperators::seen == std::vector<std::string>{"aten::cat", "aten::cat"});
}

namespace {

// The row of twelve iterations that report a hundred thousand numbers each, every third with
// gradients that are not finite; and the operators that the last eleven take.
std::pair<Json, std::vector<std::string>> row_of_a_long_tick(bool reads_wait) {
  StepOnCpu trained(toy_row(), toy_config());
  std::optional<AssumeReadsWait> assumed;
  if (reads_wait) assumed.emplace();
  const TemporaryFolder folder;
  Reporter reporter(trained.group(), 1000, 0);
  reporter.open(folder.path(), 0);
  StepReport step;
  step.phases.push_back({&trained->recipe().phases().front()});
  PhaseReport& report = step.phases.front();
  report.statistics = {{"Loss/scores/real", torch::arange(100'000) % 7}};
  std::optional<SeenOperators> seen;
  for (int64_t i = 0; i < 12; ++i) {
    const bool bad = i % 3 == 2;
    report.losses = {torch::full({}, bad ? NAN : static_cast<double>(i))};
    report.verdict = {torch::full({1}, bad ? 1. : 0.), std::nullopt, {}, torch::full({}, 0.5 * i)};
    if (i == 1) seen.emplace();
    reporter.record(step);
  }
  seen.reset();
  reporter.tick({40, 5, 1, 0.5});
  reporter.finish();
  Json row = Json::parse(read_file(folder / "stats.jsonl"));
  for (const char* key :
       {"timestamp", "Timing/comm", "Timing/sec_per_kimg", "Resources/cpu_mem_gb"})
    row.erase(key);
  return {row, SeenOperators::seen};
}

}  // namespace

TEST_CASE("WhatALongTickHoldsIsAddedUpOnTheDevice") {
  const auto [plain, unheld] = row_of_a_long_tick(false);
  const auto [held, operators] = row_of_a_long_tick(true);
  CHECK(plain["Loss/scores/real"]["num"] == 1'200'000);
  CHECK(held["Loss/D/loss"]["num"] == 8);
  CHECK(held["Gradients/D/norm"]["num"] == 8);
  CHECK(held["AMP/D/skipped"]["mean"] == 4);
  CHECK(held.dump(1) == plain.dump(1));
  CHECK(std::ranges::count(operators, "aten::square") > 0);
  CHECK(std::ranges::count(operators, "aten::item") == 0);
}

namespace {

// A device's memory whose peak is the sum of what a test has added since restart().
class ToldMemory final : public DeviceMemory {
 public:
  MemoryPeaks peaks() const override { return {gib << 30, (gib + 2) << 30}; }
  void restart() override { gib = 0; }
  int64_t usable() const override { return 0; }
  void give_back() override {}
  int64_t gib = 0;
};

}  // namespace

TEST_CASE("EachTickReportsThePeaksOfItsOwnDeviceMemory") {
  const TemporaryFolder folder;
  const auto memory = std::make_shared<ToldMemory>();
  Reporter reporter(join_on_cpu(), 1000, 0, memory);
  reporter.open(folder.path(), 0);
  memory->gib = 50;  // of the set-up
  reporter.start();
  for (const int64_t gib : {3, 1}) {
    memory->gib = gib;
    reporter.tick({64, 1, 1, 0.5});
  }
  reporter.finish();
  const std::vector<std::string> rows = split(trim(read_file(folder / "stats.jsonl")), '\n');
  REQUIRE(rows.size() == 2);
  CHECK(Json::parse(rows[0])["Resources/peak_gpu_mem_gb"]["mean"] == 3);
  CHECK(Json::parse(rows[0])["Resources/peak_gpu_mem_reserved_gb"]["mean"] == 5);
  CHECK(Json::parse(rows[1])["Resources/peak_gpu_mem_gb"]["mean"] == 1);
}

TEST_CASE("OnACpuNoDeviceMemoryIsReported") {
  const TemporaryFolder folder;
  CHECK(memory_of(at::kCPU) == nullptr);
  Reporter reporter(join_on_cpu(), 1000, 0, memory_of(at::kCPU));
  reporter.open(folder.path(), 0);
  reporter.tick({64, 1, 1, 0.5});
  CHECK_FALSE(Json::parse(read_file(folder / "stats.jsonl")).contains("Resources/peak_gpu_mem_gb"));
}
