// SPDX-License-Identifier: Apache-2.0
#include "core/device.h"
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/tensor_checks.h"
#include "train/step/training_step.h"

using namespace gantrain;
using at::Tensor;

namespace {

std::shared_ptr<Group> join(const Rendezvous& r = {}) {
  return Group::join(r, BackendKind::kGloo, at::kCPU, 20);
}

// A phase that does nothing: whose sums they are.
const Phase& some_phase() {
  static Player player{"D", nullptr, {}};
  static const Phase phase{"D", player, nullptr};
  return phase;
}

std::vector<PhaseSums> sums_of(const std::vector<Statistics>& phases) {
  std::vector<PhaseSums> all;
  for (const Statistics& sums : phases) all.push_back({&some_phase(), sums});
  return all;
}

// Each rank's buffer is its rank + 1; what is it after one reduction over three ranks?
int check_buffers(const Rendezvous& r, BufferSync mode, double expected_of_rank_two) {
  const Tensor buffer = torch::full({2}, static_cast<double>(r.ranks.rank + 1), at::kFloat);
  IterationReduction reduction({buffer}, {}, at::kFloat, join(r), mode);
  std::vector<PhaseSums> none;
  const RankRequests heard = reduction.run(none, {r.ranks.rank == 1, false}, 0);
  if (!heard.stop || heard.save) return 1;
  if (r.ranks.rank != 2) return 0;
  return std::abs(buffer[0].item<double>() - expected_of_rank_two) < 1e-6 ? 0 : 1;
}

// Runs a law where reads are free, and with the paths of a device whose reads wait.
void for_both_kinds_of_reads(const std::function<void()>& law) {
  law();
  const AssumeReadsWait assumed;
  law();
}

}  // namespace

TEST_CASE("SumsAreThoseOfTheGlobalBatchOnEveryRank") {
  CHECK(failed_ranks(3, [](const Rendezvous& r) {
          Tensor seen;
          const AllReducedSum own{"own", [&](const Tensor& sum) { seen = sum.clone(); }, {}};
          IterationReduction reduction({}, {own}, at::kFloat, join(r), BufferSync::kMean);
          const Tensor mine = torch::full({2, 2}, static_cast<float>(r.ranks.rank + 1));
          auto sums = sums_of({{{"own", mine}}});
          reduction.run(sums, {}, 5);
          return torch::equal(seen, torch::full({2, 2}, 6.0F)) ? 0 : 1;
        }) == 0);
}

TEST_CASE("EachDuePhaseThatGaveASumIsHandedBackInOrder") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          std::vector<float> seen, other;
          const auto note = [](std::vector<float>& into) {
            return [&into](const Tensor& sum) { into.push_back(sum.item<float>()); };
          };
          IterationReduction reduction({},
                                       {{"a", note(seen), {}}, {"b", note(other), {}}},
                                       at::kFloat,
                                       join(r),
                                       BufferSync::kMean);
          const auto value = [](float number) { return torch::full({}, number); };
          auto sums = sums_of({{{"a", value(1)}}, {{"b", value(5)}, {"a", value(2)}}, {}});
          reduction.run(sums, {}, 0);
          return seen == std::vector<float>{2, 4} && other == std::vector<float>{10} ? 0 : 1;
        }) == 0);
}

TEST_CASE("BuffersBecomeTheMeanOrRankZerosOrStayAndRequestsReachAll") {
  CHECK(failed_ranks(
            3, [](const Rendezvous& r) { return check_buffers(r, BufferSync::kMean, 2); }) == 0);
  CHECK(failed_ranks(
            3, [](const Rendezvous& r) { return check_buffers(r, BufferSync::kRank0, 1); }) == 0);
  CHECK(failed_ranks(
            3, [](const Rendezvous& r) { return check_buffers(r, BufferSync::kOff, 3); }) == 0);
}

TEST_CASE("AForwardPassThatOverflowedLeavesNoTrace") {
  for_both_kinds_of_reads([] {
    const Tensor buffer = torch::full({2}, 2.0F), moved = torch::zeros({2});
    IterationReduction reduction({buffer},
                                 {{"own", [&](const Tensor& sum) { moved.add_(sum); }, {moved}}},
                                 at::kFloat,
                                 join(),
                                 BufferSync::kMean);
    reduction.begin();
    buffer[0] = std::numeric_limits<float>::quiet_NaN();
    buffer[1] = 3;
    const Tensor good = torch::full({2}, 4.0F);
    Tensor bad = good.clone();
    bad[0] = std::numeric_limits<float>::infinity();
    auto overflowed = sums_of({{{"own", bad}}});
    reduction.run(overflowed, {}, 0);
    CHECK(buffer[0].item<float>() == 2);
    CHECK(buffer[1].item<float>() == 3);
    CHECK(torch::equal(moved, torch::zeros({2})));
    auto fine = sums_of({{{"own", good}}});
    reduction.run(fine, {}, 1);
    CHECK(torch::equal(moved, good));
    // One that is not finite takes those of the iteration's other phases with it.
    auto mixed = sums_of({{{"own", good}}, {{"own", bad}}});
    reduction.run(mixed, {}, 2);
    CHECK(torch::equal(moved, good));
  });
}

TEST_CASE("WhatThereIsAtTheBeginningCountsAsGood") {
  const Tensor buffer = torch::full({1}, 2.0F);
  IterationReduction reduction({buffer}, {}, at::kFloat, join(), BufferSync::kMean);
  buffer.fill_(7);  // a state has been loaded
  reduction.begin();
  buffer.fill_(std::numeric_limits<float>::quiet_NaN());
  std::vector<PhaseSums> none;
  reduction.run(none, {}, 0);
  CHECK(buffer.item<float>() == 7);
}

TEST_CASE("OneRankHearsItselfAtOnce") {
  for_both_kinds_of_reads([] {
    IterationReduction reduction({}, {}, at::kFloat, join(), BufferSync::kMean);
    std::vector<PhaseSums> none;
    CHECK(reduction.run(none, {true, false}, 3).stop);
    CHECK(reduction.run(none, {false, true}, 4).save);
  });
}
