// SPDX-License-Identifier: Apache-2.0
#include <tuple>

#include "core/device.h"
#include "distributed/group.h"
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/tensor_checks.h"
#include "util/error.h"

using namespace gantrain;

namespace {

constexpr StateKind kParameter = StateKind::kParameter;

std::string message_of(Group& group, const StateTensors& tensors, bool with_statistics = true) {
  try {
    check_equal(group, tensors, with_statistics);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("EqualRanksPassWithOneSmallAllReduce") {
  CHECK(failed_ranks(3, [](const Rendezvous& r) {
          const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
          const StateTensors same = {{"G/a", torch::arange(1000, at::kFloat), kParameter},
                                     {"G/n", torch::tensor(7), StateKind::kConstant},
                                     {"G/none", torch::empty({0}), kParameter}};
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
          if (r.ranks.rank == 2) b[1] += 0.25;
          const std::string text =
              message_of(*group, {{"G/a", torch::ones({2}), kParameter}, {"D/b", b, kParameter}});
          return text.find(
                     "ranks differ: D/b of rank 2 is 0.25 from rank 0's; likely a gradient") == 0
                     ? 0
                     : 1;
        }) == 0);
}

// As on a GPU: the checksum is computed on the tensor's device.
TEST_CASE("ADifferenceInAnyBitOfAnyTypeShows") {
  CHECK(
      failed_ranks(2, [](const Rendezvous& r) {
        const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
        const AssumeReadsWait on_a_device;
        torch::manual_seed(1);
        const at::Tensor bytes = torch::randint(256, {48}, at::kByte);
        for (const auto type :
             {at::kByte, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kLong, at::kInt}) {
          for (const int64_t count : {48, 24, 8}) {
            const at::Tensor same = bytes.narrow(0, 0, count);
            if (!message_of(*group, {{"G/a", same.view(type), kParameter}}).empty()) return 1;
            for (int64_t bit = 0; bit < 8 * count; bit += 7) {
              at::Tensor mine = same.clone();
              if (r.ranks.rank == 1) mine[bit / 8].bitwise_xor_(1 << (bit % 8));
              const StateTensors state = {{"G/a", mine.view(type), kParameter}};
              if (message_of(*group, state).find("ranks differ: G/a") != 0) return 2;
            }
          }
        }
        at::Tensor odd = torch::arange(7, at::kHalf);  // 14 bytes: no whole number of words
        if (!message_of(*group, {{"G/b", odd, kParameter}}).empty()) return 3;
        if (r.ranks.rank == 1) odd[6] = 5;
        return message_of(*group, {{"G/b", odd, kParameter}}).empty() ? 4 : 0;
      }) == 0);
}

TEST_CASE("OwnBatchStatisticsMayDifferWhereTheyAreMeantTo") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
          const at::Tensor mine = torch::full({2}, static_cast<double>(r.ranks.rank));
          const StateTensors own = {{"G/main.1.mean", mine, StateKind::kRunningStatistic}};
          if (!message_of(*group, own, false).empty()) return 1;
          return message_of(*group, own, true).find("main.1.mean") != std::string::npos ? 0 : 1;
        }) == 0);
}

TEST_CASE("TheCauseFollowsFromWhatDiffersFirst") {
  const StateKind statistic = StateKind::kRunningStatistic;
  for (const auto& [name, kind, cause] :
       std::vector<std::tuple<std::string, StateKind, std::string>>{
           {"G/b", kParameter, "likely a gradient was not reduced"},
           // A parameter's name says nothing of what it is.
           {"G/running_b", kParameter, "likely a gradient was not reduced"},
           {"D/norm.var", statistic, "likely batch statistics were not averaged"},
           {"G_ema/b", kParameter, "likely the average was not updated"},
           {"G_ema/norm.var", statistic, "likely the average was not updated"},
           {"recipe/pl_mean", StateKind::kRecipe, "likely a recipe's own sum"}}) {
    CAPTURE(name);
    CHECK(failed_ranks(2, [&](const Rendezvous& r) {
            const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
            const at::Tensor mine = torch::full({2}, static_cast<double>(r.ranks.rank));
            const StateTensors state = {{"G/a", torch::ones({2}), kParameter},
                                        {name, mine, kind},
                                        {"last", mine, kParameter}};
            const std::string text = message_of(*group, state);
            const bool right = text.find("ranks differ: " + name + " of rank 1 is 1 from") == 0 &&
                               text.find(cause) != std::string::npos;
            return right ? 0 : 1;
          }) == 0);
  }
}
