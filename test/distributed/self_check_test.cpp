// SPDX-License-Identifier: Apache-2.0
#include "distributed/self_check.h"

#include <catch2/catch.hpp>

#include "spawn_ranks.h"
#include "tensor_checks.h"
#include "util/error.h"

using namespace gantrain;

namespace {

std::string message_of(Group& group, const NamedTensors& tensors, bool with_buffers = true) {
  try {
    check_equal(group, tensors, with_buffers);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("EqualRanksPassWithOneSmallAllReduce") {
  CHECK(failed_ranks(3, [](const Rendezvous& r) {
          const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
          const NamedTensors same = {{"G/a", torch::arange(1000, at::kFloat)},
                                     {"G/n", torch::tensor(7)},
                                     {"G/none", torch::empty({0})}};
          const Traffic before = group->traffic();
          if (!message_of(*group, same).empty()) return 1;
          const Traffic after = group->traffic();
          return after.collectives - before.collectives == 1 && after.bytes - before.bytes == 128
                     ? 0
                     : 1;
        }) == 0);
}

TEST_CASE("ADifferenceIsNamedOnEveryRankWithItsSizeAndCause") {
  CHECK(failed_ranks(3, [](const Rendezvous& r) {
          const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
          at::Tensor b = torch::ones({4});
          if (r.rank == 2) b[1] += 0.25;
          const std::string text = message_of(*group, {{"G/a", torch::ones({2})}, {"D/b", b}});
          return text.find(
                     "ranks differ: D/b of rank 2 is 0.25 from rank 0's; likely a gradient") == 0
                     ? 0
                     : 1;
        }) == 0);
}

TEST_CASE("OwnBatchStatisticsMayDifferWhereTheyAreMeantTo") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
          const NamedTensors own = {
              {"G/main.1.running_mean", torch::full({2}, static_cast<double>(r.rank))}};
          if (!message_of(*group, own, false).empty()) return 1;
          return message_of(*group, own, true).find("running_mean") != std::string::npos ? 0 : 1;
        }) == 0);
}

TEST_CASE("TheCauseFollowsFromWhatDiffersFirst") {
  for (const auto& [name, cause] : std::vector<std::pair<std::string, std::string>>{
           {"G/b", "likely a gradient was not reduced"},
           {"D/norm.running_var", "likely batch statistics were not averaged"},
           {"G_ema/b", "likely the average was not updated"},
           {"recipe/pl_mean", "likely a recipe's own sum"}}) {
    CHECK(failed_ranks(2, [&](const Rendezvous& r) {
            const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
            const NamedTensors state = {{"G/a", torch::ones({2})},
                                        {name, torch::full({2}, static_cast<double>(r.rank))},
                                        {"last", torch::full({2}, static_cast<double>(r.rank))}};
            const std::string text = message_of(*group, state);
            const bool right = text.find("ranks differ: " + name + " of rank 1 is 1 from") == 0 &&
                               text.find(cause) != std::string::npos;
            return right ? 0 : 1;
          }) == 0);
  }
}
