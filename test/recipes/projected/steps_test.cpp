// SPDX-License-Identifier: Apache-2.0
// Training steps of small networks: functions, ranks, graphs, and what is computed in which type.
#include <optional>

#include "core/device.h"
#include "recipes/projected/options.h"
#include "recipes/projected/recipe.h"
#include "support/catch.h"
#include "support/phase_checks.h"
#include "support/step_checks.h"

using namespace gantrain;
using at::Tensor;

namespace {

using Changes = std::map<std::string, Json>;

// Pictures of 16 pixels, batch 8, narrow features of 64 pixels.
Changes tiny(Changes more = {}) {
  more.merge(Changes{{"data.resolution", 16},
                     {"train.batch", 8},
                     {"projected.z_dim", 8},
                     {"projected.ngf", 1},
                     {"projected.feature_widths", "4,4,4,4,8,8,8,8"},
                     {"projected.input", 64},
                     {"projected.cout", 4},
                     {"projected.ndf", 8},
                     {"projected.embedding", 4},
                     {"projected.cmap_dim", 4}});
  return more;
}

StepCase one(const std::string& name,
             const Changes& changes = {},
             const std::vector<int64_t>& class_counts = {}) {
  return {name, tiny(changes), class_counts};
}

std::vector<StepCase> cases() {
  return {one("unconditional"),
          one("lite, labels", {{"projected.lite", true}, {"projected.separable", true}}, {3, 5}),
          one("labels, blur",
              {{"projected.blur_init_sigma", 1}, {"projected.blur_fade_kimg", 1.5}},
              {3, 5})};
}

}  // namespace

TEST_CASE("NothingWaitsInWrapperMode") {
  check_nothing_waits(projected::row(), cases(), "wrapper", all_amp());
}

TEST_CASE("NothingWaitsInDynamicMode") {
  check_nothing_waits(projected::row(), cases(), "dynamic", all_amp());
}

TEST_CASE("NothingWaitsInFlatMode") {
  check_nothing_waits(projected::row(), cases(), "flat", all_amp());
}

TEST_CASE("GraphsChangeNothingOnTwoRanks") {
  check_graphs_change_nothing(projected::row(), cases()[1], all_amp(), 2, 8);
}

TEST_CASE("GraphsChangeNothing") {
  for (const StepCase& each : cases())
    check_graphs_change_nothing(projected::row(), each, all_amp(), 1, 8);
}

TEST_CASE("PhasesOfProjectedGansAreFunctions") {
  const Tensor real = torch::linspace(-1, 1, 8 * 3 * 16 * 16).reshape({8, 3, 16, 16});
  const Tensor labels = torch::arange(8).remainder(2);
  for (const StepCase& each : cases()) {
    for (const bool reads_wait : {false, true}) {
      CAPTURE(each.name, reads_wait);
      std::optional<AssumeReadsWait> assumed;
      if (reads_wait) assumed.emplace();
      Changes changes = each.changes;
      changes["precision.amp"] = "bf16";
      StepOnCpu step(
          projected::row(), step_config(projected::facts(), changes), {}, each.class_counts);
      check_phases_are_functions(*step, {real, each.class_counts.empty() ? Tensor() : labels, 0});
    }
  }
}

namespace {

// The tensors of a step's state whose names begin so.
std::map<std::string, Tensor> state_with(const StepOnCpu& step, const std::string& prefix) {
  std::map<std::string, Tensor> some;
  for (const auto& [name, tensor] : step.state()) {
    if (name.starts_with(prefix)) some[name] = tensor;
  }
  return some;
}

}  // namespace

TEST_CASE("FeaturesAndProjectionsStayAndAreSaved") {
  StepOnCpu step(projected::row(), step_config(projected::facts(), tiny()));
  const auto before = state_with(step, "D/feature_network.");
  CHECK(before.count("D/feature_network.scratch.layer0_csm.out_conv.weight") == 1);
  CHECK(before.count("D/feature_network.pretrained.layer3.1.0.conv_pwl.weight") == 1);
  const auto heads = state_with(step, "D/discriminator.");
  step.run(torch::rand({8, 3, 16, 16}) * 2 - 1, 0);
  for (const auto& [name, tensor] : state_with(step, "D/feature_network.")) {
    CAPTURE(name);
    CHECK(torch::equal(tensor, before.at(name)));
  }
  const std::string weight = "D/discriminator.mini_discs.0.main.0.main.0.weight_orig";
  CHECK_FALSE(torch::equal(state_with(step, weight).at(weight), heads.at(weight)));
  CHECK(state_with(step, "D.opt/exp_avg/feature_network.").empty());
}

// In each iteration G's vectors move twice, those of the heads three times.
TEST_CASE("StatisticsMoveAtEveryForwardPass") {
  StepOnCpu step(projected::row(), step_config(projected::facts(), tiny()));
  step.run(torch::rand({8, 3, 16, 16}) * 2 - 1, 0);
  const auto counted = [&](const std::string& name) {
    return state_with(step, name).at(name).item<int64_t>();
  };
  CHECK(counted("G/synthesis.init.init.1.num_batches_tracked") == 2);
  CHECK(counted("D/discriminator.mini_discs.0.main.0.main.1.num_batches_tracked") == 3);
}

TEST_CASE("TheOfficialDryPassMovesTheStatisticsOfTheFeatures") {
  const auto statistics = [](const char* pass) {
    StepOnCpu step(projected::row(),
                   step_config(projected::facts(), tiny({{"projected.dry_pass", pass}})));
    const std::string name = "D/feature_network.pretrained.layer0.1.running_mean";
    return state_with(step, name).at(name);
  };
  CHECK_FALSE(torch::equal(statistics("none"), statistics("official")));
}

TEST_CASE("PicturesOfFourChannelsAreRefused") {
  CHECK_THROWS_WITH(
      StepOnCpu(projected::row(), step_config(projected::facts(), tiny({{"data.channels", 4}}))),
      Catch::Contains("data.channels = 4"));
}
