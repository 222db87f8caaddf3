// SPDX-License-Identifier: Apache-2.0
#include "ddp_table/ddp_table.h"
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/tensor_checks.h"

using namespace gantrain;

namespace {

// The weight that one backward of D's mean score gives, rank r's pictures being r + 1.
at::Tensor gradient_of(TableMode& mode, TableGan& gan, const Rendezvous& r, bool arms) {
  const at::Tensor x = torch::full({2, 3, 8, 8}, static_cast<double>(r.ranks.rank + 1));
  for (auto& [name, p] : gan.D) p.mutable_grad() = at::Tensor();
  if (arms) mode.begin_iteration({});
  mode.begin_phase(false);
  const at::Tensor scores = gan.judge(x, {});
  mode.forwarded(false, scores);
  mode.expect_backward(false, scores.mean()).backward();
  if (arms) mode.finish_phase(false);
  return gan.D[0].second.grad().clone();
}

}  // namespace

TEST_CASE("OneProcessAndTheOwnModeAndTheWrapperGiveTheMeanGradient") {
  for (const TableWay way : {TableWay::kOwn, TableWay::kWrapper}) {
    CHECK(failed_ranks(2, [way](const Rendezvous& r) {
            const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
            const auto gan = make_table_gan(false);
            at::Tensor alone = torch::zeros({});
            for (int64_t rank = 0; rank < 2; ++rank) {
              const auto self = Group::join({}, BackendKind::kGloo, at::kCPU, 20);
              const auto mode = make_table_mode({way}, self, *gan);
              Rendezvous as = r;
              as.ranks.rank = rank;
              alone = alone + gradient_of(*mode, *gan, as, true) / 2;
            }
            const auto mode = make_table_mode({way}, group, *gan);
            return scaled_error(gradient_of(*mode, *gan, r, true), alone) < 1e-6 ? 0 : 1;
          }) == 0);
  }
}

TEST_CASE("TheWholeModelIsNotArmedInItsFirstIteration") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
          const auto gan = make_table_gan(false);
          const Traffic before = group->traffic();
          const auto mode = make_table_mode({TableWay::kWholeModel}, group, *gan);
          gradient_of(*mode, *gan, r, true);
          return group->traffic().collectives == before.collectives && mode->buckets(true) == 1 ? 0
                                                                                                : 1;
        }) == 0);
}
