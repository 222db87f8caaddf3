// SPDX-License-Identifier: Apache-2.0
#include "train/shared.h"

#include <catch2/catch.hpp>

#include "spawn_ranks.h"
#include "tensor_checks.h"
#include "toy_recipe.h"

using namespace gantrain;

namespace {

// Each rank's buffer is its rank + 1; what is it after one reduction over three ranks?
int check_buffers(const Rendezvous& r, BufferSync mode, double expected_of_rank_two) {
  const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
  const Config config = toy_config();
  const auto recipe = toy_row().make(
      {config, 0, 8, 3, {}, at::kCPU, at::kFloat, [](const std::string&, const at::Tensor&) {}});
  std::vector<PlayerState> players = make_players(*recipe, {9, 3, 3, 1}, {}, group);
  at::Tensor buffer = recipe->players()[0]->network->buffers()[0];
  buffer.fill_(static_cast<double>(r.rank + 1));
  SharedStatistics shared(players, {}, group, mode);
  const RankRequests heard = shared.reduce({r.rank == 1, false}, 0);
  if (!heard.stop || heard.save) return 1;
  if (r.rank != 2) return 0;
  return std::abs(buffer[0].item<double>() - expected_of_rank_two) < 1e-6 ? 0 : 1;
}

}  // namespace

TEST_CASE("SharedSumsAreThoseOfTheGlobalBatchOnEveryRank") {
  CHECK(
      failed_ranks(3, [](const Rendezvous& r) {
        const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
        const Config config = toy_config();
        const auto recipe = toy_row().make(
            {config, 0, 8, 3, {}, at::kCPU, at::kFloat, [](const std::string&, const at::Tensor&) {
             }});
        std::vector<PlayerState> players = make_players(*recipe, {9, 3, 3, 1}, {}, group);
        Shared own;
        own.sum = torch::full({2, 2}, static_cast<float>(r.rank + 1));
        at::Tensor seen;
        own.moved = [&](int64_t iteration) { seen = own.sum + iteration; };
        SharedStatistics shared(players, {&own}, group, BufferSync::kMean);
        shared.reduce({}, 5);
        const bool right = torch::equal(seen, torch::full({2, 2}, 11.0F));
        return right && own.sum.abs().max().item<float>() == 0 ? 0 : 1;
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
  const auto group = Group::join({}, BackendKind::kGloo, at::kCPU, 20);
  const Config config = toy_config();
  const auto recipe = toy_row().make(
      {config, 0, 8, 3, {}, at::kCPU, at::kFloat, [](const std::string&, const at::Tensor&) {}});
  std::vector<PlayerState> players = make_players(*recipe, {9, 1, 9, 1}, {}, group);
  at::Tensor buffer = recipe->players()[0]->network->buffers()[0];
  buffer.fill_(2);
  Shared own;
  own.sum = torch::zeros({2});
  int64_t moves = 0;
  own.moved = [&](int64_t) { ++moves; };
  SharedStatistics shared(players, {&own}, group, BufferSync::kMean);
  shared.begin();
  buffer[0] = std::numeric_limits<float>::quiet_NaN();
  buffer[1] = 3;
  own.sum[0] = std::numeric_limits<float>::infinity();
  shared.reduce({}, 0);
  CHECK(buffer[0].item<float>() == 2);
  CHECK(buffer[1].item<float>() == 3);
  CHECK(moves == 0);
  CHECK(own.sum.abs().max().item<float>() == 0);
  shared.reduce({}, 1);
  CHECK(moves == 1);
}
