// SPDX-License-Identifier: Apache-2.0
#include "distributed/gradient_sync.h"
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/tensor_checks.h"

using namespace gantrain;

namespace {

// Of all ranks' losses w_r * s^3 with s = sum over ranks of x_r: the derivatives after this rank's
// x are 3 s^2 sum(w) and 6 s sum(w), whatever the rank.
int check_derivatives(const Rendezvous& r) {
  const auto sum = rank_sum(Group::join(r, BackendKind::kGloo, at::kCPU, 20));
  const auto rank = static_cast<double>(r.ranks.rank);
  const at::Tensor x = torch::full({3}, rank + 1, torch::dtype(at::kDouble).requires_grad(true));
  const at::Tensor s = sum(x);  // 1 + 2 = 3
  if (s[0].item<double>() != 3) return 1;
  const at::Tensor loss = ((rank + 1) * s.pow(3)).sum();
  const at::Tensor first = torch::autograd::grad({loss}, {x}, {}, true, true)[0];
  if (first[1].item<double>() != 3 * 9 * 3) return 2;
  // A penalty on it, as R1 has: each rank's own, so that the sum over ranks counts twice.
  const at::Tensor second = torch::autograd::grad({first.sum()}, {x})[0];
  return second[2].item<double>() == 2 * 6 * 3 * 3 ? 0 : 3;
}

}  // namespace

TEST_CASE("TheSumOverRanksHasTheGradientOfAllRanksLossesTwice") {
  CHECK(failed_ranks(2, check_derivatives) == 0);
}

TEST_CASE("EachPassIsOneAllReduce") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
          const auto sum = rank_sum(group);
          const Traffic before = group->traffic();
          const at::Tensor x = torch::ones({5}, torch::requires_grad());
          const at::Tensor y = sum(x);
          const int64_t forward = group->traffic().collectives - before.collectives;
          y.sum().backward();
          const int64_t both = group->traffic().collectives - before.collectives;
          return forward == 1 && both == 2 && x.grad()[0].item<float>() == 2 ? 0 : 1;
        }) == 0);
}
