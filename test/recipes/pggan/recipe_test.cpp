// SPDX-License-Identifier: Apache-2.0
#include "recipes/pggan/recipe.h"

#include "recipes/official_losses.h"
#include "recipes/pggan/official.h"
#include "recipes/pggan/options.h"
#include "support/catch.h"
#include "support/given_draws.h"

using namespace gantrain;

namespace {

StepOnCpu make(const pggan::NetworkOptions& net, const std::map<std::string, Json>& changes = {}) {
  return {pggan::row(), step_config(pggan::facts(), pggan::sized(net, changes))};
}

const std::map<std::string, std::string> kStatistics = {{"Loss/scores/real", "real_scores"},
                                                        {"Loss/scores/fake", "fake_scores"},
                                                        {"Loss/gradient_norm", "mixed_norms"}};

// The recipe with the fixture's networks, latents and interpolations.
OfficialNumbers numbers_of(const std::string& name,
                           CoveredFixture& reference,
                           const OfficialLoss& loss) {
  StepOnCpu step = make(pggan::OfficialPair::shape_of(name).net,
                        {{"pggan.gp_size", loss.fullres ? "fullres" : "native"}});
  const std::string source = name + "_params", pixels = std::to_string(loss.pixels);
  const TensorMap tensors = pggan::import_official(fixture(source), source).tensors;
  load_into(*step.player("G").player->network, tensors, source);
  load_into(*step.player("D").player->network, tensors, source, "D.");
  GivenDraws draws;
  draws.give("z", reference["in/z" + pixels]);
  draws.give("gp", reference["in/mix" + pixels].unsqueeze(1));
  return official_numbers(
      step->recipe(), loss, reference["in/img" + pixels], kStatistics, pggan::layout_of);
}

}  // namespace

// What is left out is made of the scores, but for D's scores of interpolated pictures, which
// networks_test.cpp compares.
TEST_CASE("PhasesMatchTheOfficialCode") {
  for (const char* name : {"pggan16", "pggan16_unfused"}) {
    CAPTURE(name);
    CoveredFixture reference(std::string(name) + "_loss");
    check_official_losses(
        reference,
        {"epsilon_penalty", "loss_per_sample", "mixed_scores"},
        [&](const OfficialLoss& loss) { return numbers_of(name, reference, loss); });
  }
}

TEST_CASE("PhasesOfPgganAreFunctions") {
  const at::Tensor real = torch::linspace(-1, 1, 4 * 3 * 8 * 8).reshape({4, 3, 8, 8});
  StepOnCpu step = make({8, 64, 1, 8, true}, {{"precision.amp", "bf16"}});
  for (const double alpha : {0.3, 1.0}) {
    CAPTURE(alpha);
    enter_level(step->recipe(), 8, alpha);
    check_phases_are_functions(*step, {real, {}, 0});
  }
}

TEST_CASE("ARecordingSeesTheConvolutionsOfEveryStage") {
  pggan::NetworkOptions net;
  net.fmap_base = 128;
  net.fmap_max = 8;
  StepOnCpu step = make(net, {{"precision.amp", "auto"}, {"train.kimg", 10}});
  check_recording_of_stages(*step);
}
