// SPDX-License-Identifier: Apache-2.0
// That a phase is a function of its input's values, and what becomes of what it hands over.
#include "support/catch.h"
#include "support/tensor_checks.h"
#include "train/step/run_ranks.h"
#include "train/step/toys.h"

using namespace gantrain;

namespace {

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("APhaseCalledTwiceGivesTheSameBitsAndLeavesNothingBehind") {
  for (const ToyCase& toy : all_toys()) {
    const Config config = toy.config_with({});
    const auto recipe = toy.row.make({config, 0, {8, 8}, 3, {}, at::kCPU, at::kFloat});
    for (const int64_t iteration : {0, 1}) {
      const std::vector<Phase>& phases = recipe->phases();
      Carry carried;
      for (size_t i = 0; i < phases.size(); ++i) {
        const Phase& phase = phases[i];
        CAPTURE(toy.name, phase.name, iteration);
        PhaseInput input = whole_batch(*recipe, phase, {toy_pictures(8, iteration), {}, iteration});
        CHECK(differences_when_run_twice(*recipe, phase, input) == Names());
        if (phase.continues) {
          input.carried = carried;
          CHECK(differences_when_run_twice(*recipe, phase, input) == Names());
        }
        if (i + 1 == phases.size() || !phases[i + 1].continues) continue;
        input.continued = true;
        CHECK(differences_when_run_twice(*recipe, phase, input) == Names());
        carried = phase.run(input).carried;
        CHECK_FALSE(carried.tensors.empty());
      }
    }
  }
}

TEST_CASE("APhaseThatKeepsSomethingIsFoundOut") {
  const Config config = toy_config();
  const auto recipe = toy_row().make({config, 0, {8, 8}, 3, {}, at::kCPU, at::kFloat});
  const Phase& D = recipe->phases().front();
  int64_t calls = 0;
  const Phase changing{"D", D.player, [&](const PhaseInput& in) {
                         PhaseOutput out = D.loss(in);
                         out.loss = out.loss * static_cast<double>(++calls);
                         const torch::NoGradGuard no_grad;
                         recipe->state().front().second.add_(1);
                         return out;
                       }};
  const Names differing = differences_when_run_twice(
      *recipe, changing, whole_batch(*recipe, D, {toy_pictures(8, 0), {}, 0}));
  for (const char* name : {"loss", "gradient D.weight", "state mean_z"}) {
    CAPTURE(name);
    CHECK(std::count(differing.begin(), differing.end(), name) == 1);
  }
}

namespace {

using Changes = std::map<std::string, Json>;

NamedTensors trained_toy(const Rendezvous& r, const Changes& changes) {
  StepOnCpu step(toy_row(), toy_config(changes), r);
  for (int64_t i = 0; i < 6; ++i) step.run(toy_pictures(8, i), i);
  return step.state();
}

const Changes kReductions[] = {{{"dist.ddp_mode", "wrapper"}},
                               {{"dist.ddp_mode", "dynamic"}},
                               {{"dist.ddp_mode", "dynamic"}, {"dist.find_unused", "on"}},
                               {{"dist.ddp_mode", "dynamic"}, {"dist.static_graph", true}},
                               {{"dist.ddp_mode", "flat"}},
                               {{"dist.ddp_scope", "whole"}}};

// What a statistic of these iterations said, one letter for each: '1', '0'.
std::string flags_of(StepOnCpu& step, const std::string& name, int64_t iterations) {
  std::string flags;
  for (int64_t i = 0; i < iterations; ++i) {
    for (const PhaseReport& phase : step.run(toy_pictures(8, i), i).phases) {
      for (const auto& [known, value] : phase.statistics) {
        if (known == name) flags += value.item<float>() > 0 ? '1' : '0';
      }
    }
  }
  return flags;
}

}  // namespace

// Weights, moments, running means and the average: all of it follows from the gradients.
TEST_CASE("UsingWhatWasHandedOverIsComputingItAnewBitForBit") {
  for (const int64_t world : {1, 2}) {
    for (const Changes& mode : kReductions) {
      for (const char* optimizer : {"sgd", "adam"}) {
        Changes changes = mode;
        changes["toy.promises"] = true;
        changes["G.optimizer"] = changes["D.optimizer"] = optimizer;
        CAPTURE(world, Json(mode).dump(), optimizer);
        const auto result = [&](bool hands_over) {
          Changes all = changes;
          all["toy.hands_over"] = hands_over;
          return result_of_ranks(world, [&](const Rendezvous& r) { return trained_toy(r, all); });
        };
        check_same_bits(result(true), result(false));
      }
    }
  }
}

TEST_CASE("APhaseRecordsAPlayerWhoseOwnPhaseFollowsInOneMicroBatch") {
  const auto flags = [](const char* name, const Changes& changes) {
    StepOnCpu step(toy_row(), toy_config(changes));
    return flags_of(step, name, 4);
  };
  const Changes hands = {{"toy.hands_over", true}};
  CHECK(flags("Toy/recorded", hands) == "1010");  // G steps at every second iteration
  CHECK(flags("Toy/taken", hands) == "11");
  CHECK(flags("Toy/recorded", {}).empty());
  const Changes accumulates = {{"toy.hands_over", true}, {"train.accumulate", 2}};
  CHECK(flags("Toy/recorded", accumulates) == "00000000");
  CHECK(flags("Toy/taken", accumulates) == "0000");
  // Both players must work on one micro-batch.
  for (const char* player : {"G.accumulate", "D.accumulate"}) {
    CAPTURE(player);
    const std::string taken = flags("Toy/taken", {{"toy.hands_over", true}, {player, 2}});
    CHECK(taken.find('1') == std::string::npos);
    CHECK_FALSE(taken.empty());
  }
}

TEST_CASE("NothingThatWasHandedOverOutlivesItsIteration") {
  StepOnCpu step(toy_row(), toy_config({{"toy.hands_over", true}}));
  const auto& toy = dynamic_cast<const ToyRecipe&>(step->recipe());
  for (int64_t i = 0; i < 4; ++i) {
    const StepReport report = step.run(toy_pictures(8, i), i);
    REQUIRE(toy.handed_over.has_value());
    CHECK(toy.handed_over->expired());
  }
}
