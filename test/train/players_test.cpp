// SPDX-License-Identifier: Apache-2.0
#include "train/players.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <catch2/catch.hpp>

#include "resident_bytes.h"
#include "spawn_ranks.h"
#include "sync_recipes.h"
#include "temporary_folder.h"
#include "tensor_checks.h"
#include "toy_recipe.h"
#include "train/step.h"
#include "util/error.h"

using namespace gantrain;

namespace {

// Recipes keep their configuration.
const Config& adam_config() {
  static const Config config = toy_config({{"G.optimizer", "adam"}, {"D.optimizer", "adam"}});
  return config;
}

RecipeContext context_of(at::ScalarType dtype) {
  return {
      adam_config(), 0, 8, 3, {}, at::kCPU, dtype, [](const std::string&, const at::Tensor&) {}};
}

std::shared_ptr<Group> join(const Rendezvous& r) {
  return Group::join(r, BackendKind::kGloo, at::kCPU, 20);
}

// Bytes that each phase of the last iteration gave to the process group.
using Spent = std::map<std::string, int64_t>;

struct World {
  World(const Rendezvous& r, Recipe& recipe, const DistOptions& dist, int64_t accumulate)
      : rank(r), recipe(recipe), dist(dist), group(join(r)) {
    TrainOptions train;
    train.batch = 8;
    train.accumulate = accumulate;
    players = make_players(recipe, plan_batch(train, r.world), dist, group);
  }

  void iterate(int64_t i) {
    spent.clear();
    StepHooks hooks;
    hooks.phase = [](const std::string&) {};
    hooks.loss = [](const std::string&, const at::Tensor&) {};
    hooks.traffic = [this] { return group->traffic(); };
    hooks.spent = [this](const std::string& phase, const PhaseTraffic& t) {
      spent[phase] = t.traffic.bytes;
    };
    const at::ScalarType dtype = players.front().parameters.front().second.scalar_type();
    const at::Tensor mine =
        toy_pictures(8, i).slice(0, rank.rank, std::nullopt, rank.world).contiguous().to(dtype);
    run_iteration(recipe, players, {mine, {}, rank.rank, i}, hooks);
  }

  NamedTensors weights() const {
    NamedTensors all;
    for (const PlayerState& p : players) {
      for (const auto& [name, t] : p.parameters)
        all.emplace_back(p.player->name + "." + name, t.detach().clone());
      for (const auto& [name, t] : p.optimizer->state())
        all.emplace_back(p.player->name + ".opt/" + name, t.clone());
    }
    return all;
  }

  Rendezvous rank;
  Recipe& recipe;
  DistOptions dist;
  std::shared_ptr<Group> group;
  std::vector<PlayerState> players;
  Spent spent;
};

using Weights = std::map<std::string, at::Tensor>;

// What rank 0 of a world of that size ends with; all ranks must end the same.
Weights result_of(int64_t world, const std::function<NamedTensors(const Rendezvous&)>& train) {
  const TemporaryFolder folder;
  REQUIRE(failed_ranks(world, [&](const Rendezvous& r) {
            save_safetensors(folder / std::to_string(r.rank), train(r), {});
            return 0;
          }) == 0);
  const Weights first = load_safetensors(folder / "0").tensors;
  for (int64_t rank = 1; rank < world; ++rank) {
    for (const auto& [name, tensor] : load_safetensors(folder / std::to_string(rank)).tensors) {
      CAPTURE(rank, name);
      CHECK(torch::equal(tensor, first.at(name)));
    }
  }
  return first;
}

void check_same_bits(const Weights& got, const Weights& expected) {
  REQUIRE(got.size() == expected.size());
  for (const auto& [name, tensor] : expected) {
    CAPTURE(name);
    CHECK(torch::equal(got.at(name), tensor));
  }
}

DistOptions options_of(DdpMode mode, FindUnused find_unused) {
  DistOptions dist;
  dist.ddp_mode = mode;
  dist.find_unused = find_unused;
  return dist;
}

NamedTensors train_parts(const Rendezvous& r, const DistOptions& dist, int64_t accumulate) {
  const auto recipe = make_parts_recipe(context_of(at::kFloat));
  World world(r, *recipe, dist, accumulate);
  for (int64_t i = 0; i < 12; ++i) world.iterate(i);
  return world.weights();
}

// Grows and shrinks again, two iterations a stage.
NamedTensors train_growing(const Rendezvous& r,
                           const DistOptions& dist,
                           int64_t accumulate,
                           at::ScalarType dtype,
                           bool promises) {
  const auto recipe = make_growing_recipe(context_of(dtype), promises);
  World world(r, *recipe, dist, accumulate);
  for (int64_t i = 0; i < 10; ++i) {
    if (i % 2 == 0 && i > 0) {
      recipe->level = std::vector<int64_t>{0, 1, 2, 1, 2}[static_cast<size_t>(i / 2)];
      rebuild_syncs(world.players, dist, world.group);
    }
    world.iterate(i);
  }
  return world.weights();
}

constexpr DdpMode kModes[] = {DdpMode::kWrapper, DdpMode::kDynamic, DdpMode::kFlat};

}  // namespace

TEST_CASE("EveryWayOfCallingANetworkIsReducedInEveryMode") {
  const Weights expected = result_of(1, [](const Rendezvous& r) { return train_parts(r, {}, 2); });
  CHECK(expected.at("D.bias").item<float>() != 0.25F);
  for (const DdpMode mode : kModes) {
    for (const FindUnused search : {FindUnused::kAuto, FindUnused::kOn}) {
      CAPTURE(static_cast<int>(mode), static_cast<int>(search));
      check_same_bits(
          result_of(
              2, [&](const Rendezvous& r) { return train_parts(r, options_of(mode, search), 1); }),
          expected);
    }
  }
  // Without a search a penalty alone works in wrapper mode too.
  check_same_bits(result_of(2,
                            [&](const Rendezvous& r) {
                              return train_parts(
                                  r, options_of(DdpMode::kWrapper, FindUnused::kOff), 1);
                            }),
                  expected);
}

TEST_CASE("PartsWithoutTrainableParametersCostNothing") {
  for (const DdpMode mode : kModes) {
    CHECK(failed_ranks(2, [mode](const Rendezvous& r) {
            const auto recipe = make_parts_recipe(context_of(at::kFloat));
            World world(r, *recipe, options_of(mode, FindUnused::kAuto), 1);
            world.iterate(0);
            const int64_t g = 4 * (5 * 6 + 6 * 192), d = 4 * (192 * 7 + 7 + 1);
            const bool flat = mode == DdpMode::kFlat;
            if (world.spent["G"] != g + (flat ? 0 : 2 * 4)) return 1;
            if (world.spent["D"] != d + (flat ? 0 : 3 * 4)) return 2;
            const int64_t buckets = world.players[0].sync->buckets();
            return buckets == (mode == DdpMode::kWrapper ? 2 : 1) ? 0 : 3;
          }) == 0);
  }
}

TEST_CASE("AParameterInNoPartOrTwoIsRefusedByName") {
  for (const auto& [parts, reason] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"mapping"}, "synthesis.weight of G is in 0 of its parts (mapping)"},
           {{"", "mapping"}, "mapping.weight of G is in 2 of its parts (, mapping)"}}) {
    const auto recipe = make_parts_recipe(context_of(at::kFloat));
    recipe->players()[0]->parts = parts;
    CHECK_THROWS_WITH(make_players(*recipe, {8, 1, 8, 1}, {}, join({})), Catch::Contains(reason));
  }
}

TEST_CASE("RanksStayTwoMicroBatchesWhenANetworkGrows") {
  const Weights expected =
      result_of(1, [](const Rendezvous& r) { return train_growing(r, {}, 2, at::kFloat, true); });
  for (const DdpMode mode : kModes) {
    for (const FindUnused search : {FindUnused::kAuto, FindUnused::kOn, FindUnused::kOff}) {
      for (const bool promises : {true, false}) {
        CAPTURE(static_cast<int>(mode), static_cast<int>(search), promises);
        check_same_bits(result_of(2,
                                  [&](const Rendezvous& r) {
                                    return train_growing(
                                        r, options_of(mode, search), 1, at::kFloat, promises);
                                  }),
                        expected);
      }
    }
  }
  DistOptions whole;
  whole.ddp_scope = DdpScope::kWhole;
  check_same_bits(
      result_of(2,
                [&](const Rendezvous& r) { return train_growing(r, whole, 1, at::kFloat, true); }),
      expected);
}

TEST_CASE("FourRanksFollowOneBatchInFloat64WhenANetworkGrows") {
  const auto train = [](const Rendezvous& r) { return train_growing(r, {}, 1, at::kDouble, true); };
  const Weights expected = result_of(1, train), got = result_of(4, train);
  const auto start = result_of(1, [](const Rendezvous& r) {
    const auto recipe = make_growing_recipe(context_of(at::kDouble), true);
    return World(r, *recipe, {}, 1).weights();
  });
  for (const auto& [name, tensor] : expected) {
    if (name.find(".opt/") != std::string::npos) continue;
    CAPTURE(name);
    const double moved = (tensor - start.at(name)).abs().max().item<double>();
    CHECK(moved > 0);
    CHECK((got.at(name) - tensor).abs().max().item<double>() <= 1e-10 * moved);
  }
}

TEST_CASE("InactiveParametersGetNoGradientNoCollectiveAndNoStep") {
  for (const DdpMode mode : kModes) {
    for (const FindUnused search : {FindUnused::kAuto, FindUnused::kOn}) {
      CHECK(failed_ranks(2, [=](const Rendezvous& r) {
              const auto recipe = make_growing_recipe(context_of(at::kFloat), true);
              DistOptions dist = options_of(mode, search);
              dist.first_bucket_mb = dist.bucket_mb = 0.00001;  // a bucket for each parameter
              World world(r, *recipe, dist, 1);
              const PlayerState& G = world.players[0];
              const auto block = [&](size_t k) { return G.parameters[k].second; };
              recipe->level = 2;
              rebuild_syncs(world.players, dist, world.group);
              world.iterate(0);  // momentum for all
              recipe->level = 1;
              rebuild_syncs(world.players, dist, world.group);
              if (G.active.size() != 3 || G.parameters[2].first != "block2.weight") return 1;
              const at::Tensor still = block(2).detach().clone(), moves = block(1).detach().clone();
              world.iterate(1);
              const bool kept = mode != DdpMode::kFlat && search == FindUnused::kOn;
              const int64_t active = 4 * (5 * 6 + 6 * 6 + 6 * 192);
              if (world.spent["G"] != active + (kept ? 4 * 4 : 0)) return 2;
              if (block(2).requires_grad() || block(2).grad().defined()) return 3;
              if (!torch::equal(block(2), still) || torch::equal(block(1), moves)) return 4;
              return 0;
            }) == 0);
    }
  }
}

TEST_CASE("AnActiveParameterOutsideTheLossMovesByItsMomentumAlone") {
  // D's bias gets no gradient from a penalty: zeros, so Adam's step is that of its moments.
  const auto bias_after = [](const Rendezvous& r, DdpMode mode) {
    const auto recipe = make_parts_recipe(context_of(at::kFloat));
    World world(r, *recipe, options_of(mode, FindUnused::kAuto), r.world == 1 ? 2 : 1);
    world.iterate(0);
    recipe->phases()[0].interval = 1000;  // the penalty is D's only phase now
    world.iterate(1);
    NamedTensors all;
    for (auto& item : world.weights()) {
      if (item.first.find("bias") != std::string::npos) all.push_back(item);
    }
    return all;
  };
  const Weights expected =
      result_of(1, [&](const Rendezvous& r) { return bias_after(r, DdpMode::kDynamic); });
  CHECK(expected.at("D.opt/step/bias").item<float>() == 2);
  for (const DdpMode mode : kModes) {
    CAPTURE(static_cast<int>(mode));
    check_same_bits(result_of(2, [&](const Rendezvous& r) { return bias_after(r, mode); }),
                    expected);
  }
}

TEST_CASE("AStaticGraphIsRefusedWhereARecipesPhasesDiffer") {
  DistOptions dist;
  dist.static_graph = true;
  const auto parts = make_parts_recipe(context_of(at::kFloat));
  CHECK_THROWS_WITH(make_players(*parts, {8, 1, 8, 1}, dist, join({})),
                    Catch::StartsWith("dist.static_graph = on: phase G of this recipe may leave "
                                      "parameters of G out"));
  const auto growing = make_growing_recipe(context_of(at::kFloat), true);
  CHECK_NOTHROW(make_players(*growing, {8, 1, 8, 1}, dist, join({})));
  const Weights expected =
      result_of(2, [](const Rendezvous& r) { return train_growing(r, {}, 2, at::kFloat, true); });
  for (const DdpMode mode : {DdpMode::kWrapper, DdpMode::kDynamic}) {
    dist.ddp_mode = mode;
    check_same_bits(
        result_of(2,
                  [&](const Rendezvous& r) { return train_growing(r, dist, 2, at::kFloat, true); }),
        expected);
  }
}

TEST_CASE("TheChoiceIsSaidInOneLine") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const auto recipe = make_growing_recipe(context_of(at::kFloat), true);
          const auto group = join(r);
          const auto text_with = [&](const DistOptions& dist) {
            return describe_syncs(make_players(*recipe, {8, 2, 4, 1}, dist, group), dist);
          };
          DistOptions dist;
          if (text_with(dist) !=
              "dynamic: G find-unused off, 1 bucket; D find-unused off, 1 bucket")
            return 1;
          dist.find_unused = FindUnused::kOn;
          if (text_with(dist).find("G find-unused on, unused buckets left out, 1 bucket") ==
              std::string::npos)
            return 2;
          dist.ddp_scope = DdpScope::kWhole;
          return text_with(dist) == "dynamic over the whole GAN: find-unused on, 1 bucket" ? 0 : 3;
        }) == 0);
}

namespace {

size_t hooks_on(const PlayerState& player) {
  size_t all = 0;
  for (auto [name, p] : player.parameters) {
    p.requires_grad_(true);  // a frozen one shows none
    all += torch::autograd::impl::grad_accumulator(p)->post_hooks().size();
  }
  return all;
}

int switch_often(const Rendezvous& r, DdpMode mode, FindUnused search) {
  // 2 MB of buckets a network: 50 leaked ones would be 200.
  const auto recipe = make_growing_recipe(context_of(at::kFloat), true, 512);
  const DistOptions dist = options_of(mode, search);
  World world(r, *recipe, dist, 1);
  const bool kept = search == FindUnused::kOn;
  int64_t warm = 0;
  for (int64_t i = 0; i < 50; ++i) {
    recipe->level = i % 3;
    rebuild_syncs(world.players, dist, world.group);
    world.iterate(i);
    // One hook on each parameter that is reduced, never two.
    const auto hooked = static_cast<size_t>(mode == DdpMode::kFlat ? 0 : kept ? 4 : 2 + i % 3);
    for (const PlayerState& p : world.players) {
      if (hooks_on(p) != hooked) return 1;
    }
    if (i == 9) warm = resident_bytes();
  }
  return resident_bytes() - warm < (8 << 20) ? 0 : 2;
}

}  // namespace

TEST_CASE("FiftyStageSwitchesLeakNeitherMemoryNorHooks") {
  for (const DdpMode mode : kModes) {
    for (const FindUnused search : {FindUnused::kAuto, FindUnused::kOn}) {
      CAPTURE(static_cast<int>(mode), static_cast<int>(search));
      CHECK(failed_ranks(2, [=](const Rendezvous& r) { return switch_often(r, mode, search); }) ==
            0);
    }
  }
}
