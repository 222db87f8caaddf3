// SPDX-License-Identifier: Apache-2.0
#include "train/step.h"

#include <catch2/catch.hpp>

#include "spawn_ranks.h"
#include "temporary_folder.h"
#include "tensor_checks.h"
#include "toy_recipe.h"
#include "util/file.h"

using namespace gantrain;

namespace {

struct Run {
  DdpMode mode = DdpMode::kDynamic;
  int64_t accumulate = 1;
  const char* optimizer = "sgd";
  at::ScalarType dtype = at::kFloat;
  int64_t iterations = 20;
};

// Trains the toy for some iterations and returns all its weights.
NamedTensors train_toy(const Rendezvous& r, const Run& run) {
  const Config config =
      toy_config({{"G.optimizer", run.optimizer}, {"D.optimizer", run.optimizer}});
  const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
  const auto recipe = toy_row().make(
      {config, 0, 8, 3, {}, at::kCPU, run.dtype, [](const std::string&, const at::Tensor&) {}});
  DistOptions dist;
  dist.ddp_mode = run.mode;
  TrainOptions train;
  train.batch = 8;
  train.accumulate = run.accumulate;
  std::vector<PlayerState> players = make_players(*recipe, plan_batch(train, r.world), dist, group);
  const StepHooks quiet{[](const std::string&) {}, [](const std::string&, const at::Tensor&) {}};
  for (int64_t i = 0; i < run.iterations; ++i) {
    const at::Tensor mine =
        toy_pictures(8, i).slice(0, r.rank, std::nullopt, r.world).contiguous().to(run.dtype);
    run_iteration(*recipe, players, {mine, {}, r.rank, i}, quiet);
  }
  NamedTensors all;
  for (const PlayerState& p : players) {
    for (const auto& [name, t] : p.parameters)
      all.emplace_back(p.player->name + "." + name, t.detach().clone());
  }
  return all;
}

// Rank 0 of each world writes its weights; both are compared in the parent.
std::map<std::string, at::Tensor> result_of(int64_t world, const Run& run) {
  const TemporaryFolder folder;
  const auto path = folder / "weights";
  REQUIRE(failed_ranks(world, [&](const Rendezvous& r) {
            const NamedTensors weights = train_toy(r, run);
            if (r.rank == 0) save_safetensors(path, weights, {});
            return 0;
          }) == 0);
  return load_safetensors(path).tensors;
}

}  // namespace

TEST_CASE("TwoRanksAreTwoAccumulatedMicroBatchesBitForBit") {
  for (const char* optimizer : {"sgd", "adam"}) {
    const auto expected = result_of(1, {DdpMode::kDynamic, 2, optimizer});
    for (const DdpMode mode : {DdpMode::kWrapper, DdpMode::kDynamic, DdpMode::kFlat}) {
      const auto got = result_of(2, {mode, 1, optimizer});
      for (const auto& [name, tensor] : expected) {
        CAPTURE(name, optimizer, static_cast<int>(mode));
        CHECK(torch::equal(got.at(name), tensor));
      }
    }
  }
}

TEST_CASE("FourRanksAreOneUndividedBatchInFloat64") {
  for (const char* optimizer : {"sgd", "adam"}) {
    const auto start = result_of(1, {DdpMode::kDynamic, 1, optimizer, at::kDouble, 0});
    const auto expected = result_of(1, {DdpMode::kDynamic, 1, optimizer, at::kDouble});
    const auto got = result_of(4, {DdpMode::kDynamic, 1, optimizer, at::kDouble});
    for (const auto& [name, tensor] : expected) {
      CAPTURE(name, optimizer);
      const double moved = (tensor - start.at(name)).abs().max().item<double>();
      CHECK(moved > 0);
      CHECK((got.at(name) - tensor).abs().max().item<double>() <= 1e-10 * moved);
    }
  }
}

TEST_CASE("AMicroBatchIsItsStrideOfTheGlobalBatch") {
  const at::Tensor global = torch::arange(24).reshape({24, 1});
  const BatchPlan plan{24, 2, 4, 3};
  for (int64_t rank = 0; rank < 2; ++rank) {
    const RankBatch mine{global.slice(0, rank, std::nullopt, 2), {}, rank, 0};
    for (int64_t k = 0; k < 3; ++k) {
      const Batch micro = micro_batch(mine, plan, k);
      for (int64_t i = 0; i < micro.samples.count; ++i) {
        CHECK(micro.real[i].item<int64_t>() == micro.samples.first + i * micro.samples.stride);
      }
    }
  }
}

TEST_CASE("APhaseRunsAtItsIntervalAlone") {
  const Config config = toy_config();
  const auto group = Group::join({}, BackendKind::kGloo, at::kCPU, 20);
  const auto recipe = toy_row().make(
      {config, 0, 8, 3, {}, at::kCPU, at::kFloat, [](const std::string&, const at::Tensor&) {}});
  std::vector<PlayerState> players = make_players(*recipe, {8, 1, 8, 1}, {}, group);
  std::string order;
  const StepHooks hooks{[](const std::string&) {},
                        [&](const std::string& name, const at::Tensor&) { order += name[5]; }};
  for (int64_t i = 0; i < 4; ++i)
    run_iteration(*recipe, players, {toy_pictures(8, i), {}, 0, i}, hooks);
  CHECK(order == "DGDDGD");
}

TEST_CASE("APhaseRecordsAPlayerWhoseOwnPhaseFollowsAtOnceInOneMicroBatch") {
  const Config config = toy_config();
  const auto group = Group::join({}, BackendKind::kGloo, at::kCPU, 20);
  const auto recorded = [&](int64_t accumulate, bool asks) {
    const auto recipe = toy_row().make(
        {config, 0, 8, 3, {}, at::kCPU, at::kFloat, [](const std::string&, const at::Tensor&) {}});
    const Player& G = *recipe->players().front();
    Phase& D = recipe->phases().front();
    if (asks) D.records = &G;
    std::string seen;
    D.loss = [&G, &seen, loss = D.loss](const Batch& b) {
      seen += G.network->parameters().front().requires_grad() ? 'r' : '-';
      return loss(b);
    };
    std::vector<PlayerState> players =
        make_players(*recipe, {8, 1, 8 / accumulate, accumulate}, {}, group);
    const StepHooks quiet{[](const std::string&) {}, [](const std::string&, const at::Tensor&) {}};
    for (int64_t i = 0; i < 4; ++i)
      run_iteration(*recipe, players, {toy_pictures(8, i), {}, 0, i}, quiet);
    return seen;
  };
  CHECK(recorded(1, true) == "r-r-");  // G steps at every second iteration
  CHECK(recorded(1, false) == "----");
  CHECK(recorded(2, true) == "--------");
}
