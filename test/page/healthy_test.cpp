// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "page/charts.h"
#include "support/catch.h"
#include "support/made_run.h"

namespace gantrain {
namespace {

Chart chart(const std::string& title, const std::string& name) {
  return {title, {{name, {{0, 1}}}}};
}

RunRecord run_with(const std::vector<Setting>& settings) {
  RunRecord run;
  run.settings = settings;
  return run;
}

}  // namespace

TEST_CASE("LossesHaveTheirEquilibriumWhereTheLossHasOne") {
  const Chart losses = chart("Losses", "Loss/G/loss");
  const auto bands = healthy_bands(
      run_with({{"recipe", "dcgan", ""}, {"dcgan.loss", "dcgan", "default"}}), losses);
  REQUIRE(bands.size() == 2);
  CHECK(bands[0].band.low == Approx(std::log(2)));
  CHECK(bands[1].band.low == Approx(2 * std::log(2)));
  CHECK(contains(bands[0].words, "Goodfellow"));
  CHECK(healthy_bands(run_with({{"recipe", "stylegan2", ""}}), losses).size() == 2);
  REQUIRE(healthy_bands(run_with({{"recipe", "r3gan", ""}}), losses).size() == 1);
  CHECK(healthy_bands(run_with({{"recipe", "r3gan", ""}}), losses)[0].band.low ==
        Approx(std::log(2)));
  CHECK(
      healthy_bands(
          run_with({{"recipe", "dcgan", ""}, {"dcgan.loss", "wgan-gp", "preset wgan-gp"}}), losses)
          .empty());
  CHECK(healthy_bands(run_with({}), losses).empty());
}

TEST_CASE("TheTargetOfSignsIsTheRunsOwnAndOnlyWhereAugmentationAdapts") {
  const Chart signs = chart("Signs", "Loss/signs/real");
  RunRecord run =
      run_with({{"ada.mode", "ada", "preset stylegan2-ada"}, {"ada.target", "0.5", "flag --set"}});
  CHECK(healthy_bands(run, signs).empty());
  run.stats["Progress/augment"] = {{4, 0.1}};
  REQUIRE(healthy_bands(run, signs).size() == 1);
  CHECK(healthy_bands(run, signs)[0].band.low == 0.5);
}

TEST_CASE("DistinctnessIsHealthyAboveTheAlarmsLimit") {
  const Chart distinct = chart("Distinctness", "Progress/distinctness");
  const auto bands = healthy_bands(run_with({{"metrics.collapse_below", "0.2", ""}}), distinct);
  REQUIRE(bands.size() == 1);
  CHECK(bands[0].band.low == 0.2);
  CHECK(healthy_bands(run_with({{"metrics.collapse_below", "0", ""}}), distinct).empty());
  CHECK(healthy_bands(run_with({}), distinct).empty());
}

TEST_CASE("LossScalesAreHealthyAboveOne") {
  CHECK(healthy_bands({}, chart("AMP/G/scale", "AMP/G/scale")).size() == 1);
  CHECK(healthy_bands({}, chart("AMP/G/skipped", "AMP/G/skipped")).empty());
}

}  // namespace gantrain
