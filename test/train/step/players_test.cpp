// SPDX-License-Identifier: Apache-2.0
#include "train/step/players.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "support/catch.h"
#include "support/step_setup.h"
#include "support/tensor_checks.h"
#include "train/memory/counted_memory.h"
#include "train/step/run_ranks.h"
#include "train/step/sync_recipes.h"
#include "train/step/toy_recipe.h"
#include "util/error.h"

using namespace gantrain;

namespace {

using Changes = std::map<std::string, Json>;

Changes adam(Changes changes) {
  changes.emplace("G.optimizer", "adam");
  changes.emplace("D.optimizer", "adam");
  return changes;
}

StepOnCpu parts_step(const Rendezvous& r, const Changes& changes = {}) {
  return {parts_row(), parts_config(adam(changes)), r};
}

StepOnCpu growing_step(const Rendezvous& r, const Changes& changes = {}) {
  return {growing_row(), growing_config(adam(changes)), r};
}

void iterate(StepOnCpu& step, int64_t i) { step.run(toy_pictures(8, i), i); }

// Bytes that each phase of one iteration gave to the process group.
std::map<std::string, int64_t> spent_in(StepOnCpu& step, int64_t i) {
  std::map<std::string, int64_t> spent;
  for (const PhaseReport& phase : step.run(toy_pictures(8, i), i).phases)
    spent[phase.phase->name] = phase.spent.traffic.bytes;
  return spent;
}

NamedTensors weights_of(StepOnCpu& step) {
  NamedTensors all;
  for (const PlayerState& p : step->players()) {
    for (const auto& [name, t] : p.parameters)
      all.emplace_back(p.player->name + "." + name, t.detach().clone());
    for (const auto& [name, t] : p.optimizer->state())
      all.emplace_back(p.player->name + ".opt/" + name, t.clone());
  }
  return all;
}

Changes options_of(const char* mode, const char* find_unused) {
  return {{"dist.ddp_mode", mode}, {"dist.find_unused", find_unused}};
}

Changes with(Changes changes, const std::string& key, const Json& value) {
  changes[key] = value;
  return changes;
}

NamedTensors train_parts(const Rendezvous& r, const Changes& changes) {
  StepOnCpu step = parts_step(r, changes);
  for (int64_t i = 0; i < 12; ++i) iterate(step, i);
  return weights_of(step);
}

// Grows and shrinks again, two iterations a stage.
NamedTensors train_growing(const Rendezvous& r, const Changes& changes) {
  StepOnCpu step = growing_step(r, changes);
  for (int64_t i = 0; i < 10; ++i) {
    if (i % 2 == 0 && i > 0)
      step->enter(std::vector<int64_t>{0, 1, 2, 1, 2}[static_cast<size_t>(i / 2)]);
    iterate(step, i);
  }
  return weights_of(step);
}

constexpr const char* kModes[] = {"wrapper", "dynamic", "flat"};

}  // namespace

TEST_CASE("EveryWayOfCallingANetworkIsReducedInEveryMode") {
  const TensorsByName expected = result_of_ranks(1, [](const Rendezvous& r) {
    return train_parts(r, {{"train.accumulate", 2}});
  });
  CHECK(expected.at("D.bias").item<float>() != 0.25F);
  for (const char* mode : kModes) {
    for (const char* search : {"auto", "on"}) {
      CAPTURE(mode, search);
      check_same_bits(
          result_of_ranks(
              2, [&](const Rendezvous& r) { return train_parts(r, options_of(mode, search)); }),
          expected);
    }
  }
  // Without a search a penalty alone works in wrapper mode too.
  check_same_bits(
      result_of_ranks(
          2, [&](const Rendezvous& r) { return train_parts(r, options_of("wrapper", "off")); }),
      expected);
}

TEST_CASE("PartsWithoutTrainableParametersCostNothing") {
  for (const std::string mode : kModes) {
    CHECK(failed_ranks(2, [mode](const Rendezvous& r) {
            StepOnCpu step = parts_step(r, options_of(mode.c_str(), "auto"));
            auto spent = spent_in(step, 0);
            const int64_t g = 4 * (5 * 6 + 6 * 192), d = 4 * (192 * 7 + 7 + 1);
            if (spent["G"] != g) return 1;
            if (spent["D"] != d) return 2;
            const int64_t buckets = step.player("G").sync->buckets();
            return buckets == (mode == "wrapper" ? 2 : 1) ? 0 : 3;
          }) == 0);
  }
}

TEST_CASE("AParameterInNoPartOrTwoIsRefusedByName") {
  const Config config = parts_config();
  for (const auto& [parts, reason] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"mapping"}, "synthesis.weight of G is in 0 of its parts (mapping)"},
           {{"", "mapping"}, "mapping.weight of G is in 2 of its parts (, mapping)"}}) {
    const auto recipe = parts_row().make({config, 0, {8, 8}, 3, {}, at::kCPU, at::kFloat});
    recipe->players()[0]->parts = parts;
    const auto group = Group::join({}, BackendKind::kGloo, at::kCPU, 20);
    CHECK_THROWS_WITH(make_players(*recipe, {8, 1, 8, 1}, {}, {}, at::kCPU, group),
                      Catch::Contains(reason));
  }
}

TEST_CASE("RanksStayTwoMicroBatchesWhenANetworkGrows") {
  const TensorsByName expected = result_of_ranks(1, [](const Rendezvous& r) {
    return train_growing(r, {{"train.accumulate", 2}});
  });
  for (const char* mode : kModes) {
    for (const char* search : {"auto", "on", "off"}) {
      for (const bool promises : {true, false}) {
        CAPTURE(mode, search, promises);
        const Changes changes = with(options_of(mode, search), "growing.promises", promises);
        check_same_bits(
            result_of_ranks(2, [&](const Rendezvous& r) { return train_growing(r, changes); }),
            expected);
      }
    }
  }
  check_same_bits(result_of_ranks(2,
                                  [&](const Rendezvous& r) {
                                    return train_growing(r, {{"dist.ddp_scope", "whole"}});
                                  }),
                  expected);
}

TEST_CASE("FourRanksFollowOneBatchInFloat64WhenANetworkGrows") {
  const Changes changes = {{"train.dtype", "float64"}};
  const auto train = [&](const Rendezvous& r) { return train_growing(r, changes); };
  const TensorsByName expected = result_of_ranks(1, train), got = result_of_ranks(4, train);
  const TensorsByName start = result_of_ranks(1, [&](const Rendezvous& r) {
    StepOnCpu step = growing_step(r, changes);
    return weights_of(step);
  });
  for (const auto& [name, tensor] : expected) {
    if (name.find(".opt/") != std::string::npos) continue;
    CAPTURE(name);
    CHECK(tensor.scalar_type() == at::kDouble);
    const double moved = (tensor - start.at(name)).abs().max().item<double>();
    CHECK(moved > 0);
    CHECK((got.at(name) - tensor).abs().max().item<double>() <= 1e-10 * moved);
  }
}

TEST_CASE("InactiveParametersGetNoGradientNoCollectiveAndNoStep") {
  for (const std::string mode : kModes) {
    for (const std::string search : {"auto", "on"}) {
      CHECK(failed_ranks(2, [=](const Rendezvous& r) {
              Changes changes = options_of(mode.c_str(), search.c_str());
              // Parameters of blocks have more bytes than a bucket, so each has one of its own.
              changes["dist.first_bucket_mb"] = changes["dist.bucket_mb"] = 0.001;
              changes["growing.width"] = 20;
              StepOnCpu step = growing_step(r, changes);
              const PlayerState& G = step.player("G");
              const auto block = [&](size_t k) { return G.parameters[k].second; };
              step->enter(2);
              iterate(step, 0);  // momentum for all
              step->enter(1);
              if (G.active.size() != 3 || G.parameters[2].first != "block2.weight") return 1;
              const at::Tensor still = block(2).detach().clone(), moves = block(1).detach().clone();
              auto spent = spent_in(step, 1);
              const bool kept = mode != "flat" && search == "on";
              const int64_t active = 4 * (5 * 20 + 20 * 20 + 20 * 192);
              if (spent["G"] != active + (kept ? 4 * 4 : 0)) return 2;
              if (block(2).requires_grad() || block(2).grad().defined()) return 3;
              if (!torch::equal(block(2), still) || torch::equal(block(1), moves)) return 4;
              return 0;
            }) == 0);
    }
  }
}

TEST_CASE("AnActiveParameterOutsideTheLossMovesByItsMomentumAlone") {
  // D's bias gets no gradient from a penalty: zeros, so Adam's step is that of its moments. In the
  // second iteration the penalty is D's only phase.
  const auto bias_after = [](const Rendezvous& r, const char* mode) {
    StepOnCpu step = parts_step(r,
                                {{"dist.ddp_mode", mode},
                                 {"parts.d_interval", 1000},
                                 {"train.accumulate", r.ranks.world == 1 ? 2 : 1}});
    iterate(step, 0);
    iterate(step, 1);
    NamedTensors all;
    for (auto& item : weights_of(step)) {
      if (item.first.find("bias") != std::string::npos) all.push_back(item);
    }
    return all;
  };
  const TensorsByName expected =
      result_of_ranks(1, [&](const Rendezvous& r) { return bias_after(r, "dynamic"); });
  CHECK(expected.at("D.opt/step/bias").item<float>() == 2);
  for (const char* mode : kModes) {
    CAPTURE(mode);
    check_same_bits(result_of_ranks(2, [&](const Rendezvous& r) { return bias_after(r, mode); }),
                    expected);
  }
}

TEST_CASE("AStaticGraphIsRefusedWhereARecipesPhasesDiffer") {
  const Changes is_static = {{"dist.static_graph", true}};
  CHECK_THROWS_WITH(parts_step({}, is_static),
                    Catch::StartsWith("dist.static_graph = on: phase G of this recipe may leave "
                                      "parameters of G out"));
  CHECK_NOTHROW(growing_step({}, is_static));
  const TensorsByName expected = result_of_ranks(2, [](const Rendezvous& r) {
    return train_growing(r, {{"train.accumulate", 2}});
  });
  for (const char* mode : {"wrapper", "dynamic"}) {
    CAPTURE(mode);
    const Changes changes = {
        {"dist.static_graph", true}, {"dist.ddp_mode", mode}, {"train.accumulate", 2}};
    check_same_bits(
        result_of_ranks(2, [&](const Rendezvous& r) { return train_growing(r, changes); }),
        expected);
  }
}

TEST_CASE("TheChoiceIsSaidInOneLine") {
  CHECK(
      failed_ranks(2, [](const Rendezvous& r) {
        StepOnCpu joined = growing_step(r);
        if (joined->describe_reductions() !=
            "dynamic: G find-unused off, 1 bucket; D find-unused off, 1 bucket")
          return 1;
        const auto text_with = [&](DistOptions dist) {
          const Config config = growing_config();
          const auto recipe = growing_row().make({config, 0, {8, 8}, 3, {}, at::kCPU, at::kFloat});
          return describe_syncs(
              make_players(*recipe, {8, 2, 4, 1}, dist, {}, at::kCPU, joined.group()), dist);
        };
        DistOptions dist;
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

// Bytes of the tensors that this process has now.
int64_t tensor_bytes(CountedMemory& memory) {
  memory.restart();
  return memory.peaks().allocated;
}

int switch_often(const Rendezvous& r, const std::string& mode, const std::string& search) {
  CountedMemory memory;
  // 2 MB of buckets a network.
  StepOnCpu step =
      growing_step(r, with(options_of(mode.c_str(), search.c_str()), "growing.width", 512));
  const bool kept = search == "on";
  int64_t warm = 0;
  for (int64_t i = 0; i < 50; ++i) {
    step->enter(i % 3);
    iterate(step, i);
    // One hook on each parameter that is reduced, never two.
    const auto hooked = static_cast<size_t>(mode == "flat" ? 0 : kept ? 4 : 2 + i % 3);
    for (const PlayerState& p : step->players()) {
      if (hooks_on(p) != hooked) {
        std::fprintf(stderr, "%zu hooks instead of %zu\n", hooks_on(p), hooked);
        return 1;
      }
    }
    if (i == 10) warm = tensor_bytes(memory);  // of the stage that the last one is of, too
  }
  // A thread of the process group may still hold the tensors of its last collectives.
  const auto grown = [&] { return tensor_bytes(memory) - warm; };
  for (int waits = 0; waits < 200 && grown() >= 1024; ++waits)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (grown() >= 1024) std::fprintf(stderr, "grown by %ld bytes\n", static_cast<long>(grown()));
  return grown() < 1024 ? 0 : 2;
}

}  // namespace

TEST_CASE("FiftyStageSwitchesLeakNeitherMemoryNorHooks") {
  for (const std::string mode : kModes) {
    for (const std::string search : {"auto", "on"}) {
      CAPTURE(mode, search);
      CHECK(failed_ranks(2, [=](const Rendezvous& r) { return switch_often(r, mode, search); }) ==
            0);
    }
  }
}
