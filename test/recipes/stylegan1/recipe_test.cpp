// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan1/recipe.h"

#include "recipes/official_losses.h"
#include "recipes/stylegan1/official.h"
#include "recipes/stylegan1/options.h"
#include "support/catch.h"
#include "support/given_draws.h"

using namespace gantrain;

namespace {

StepOnCpu make(const stylegan1::NetworkOptions& net,
               const std::map<std::string, Json>& changes = {},
               const std::vector<int64_t>& class_counts = {}) {
  return {stylegan1::row(),
          step_config(stylegan1::facts(), stylegan1::sized(net, changes)),
          {},
          class_counts};
}

std::map<std::string, Json> options_of(const OfficialLoss& loss) {
  std::map<std::string, Json> all = {
      {"stylegan1.mixing", 0}, {"stylegan1.penalty_size", loss.fullres ? "fullres" : "native"}};
  if (loss.kind == "D_logistic_r1r2") {
    all["stylegan1.r1_gamma"] = 4;
    all["stylegan1.r2_gamma"] = 2;
  } else if (loss.kind == "D_wgan_gp") {
    all["stylegan1.loss"] = "wgan-gp";
  } else if (loss.kind == "D_hinge") {
    all["stylegan1.loss"] = "hinge";
  } else if (loss.kind == "G_logistic_saturating") {
    all["stylegan1.loss"] = "saturating";
  } else {
    REQUIRE((loss.kind == "D_logistic_r1" || loss.kind == "G_logistic_nonsaturating"));
  }
  return all;
}

const std::map<std::string, std::string> kStatistics = {{"Loss/scores/real", "scores.real"},
                                                        {"Loss/scores/fake", "scores.fake"},
                                                        {"Loss/gradient_norm", "mixed_norms"},
                                                        {"Loss/r1_penalty", "r1_penalty"},
                                                        {"Loss/r2_penalty", "r2_penalty"}};

// The recipe with the fixture's networks, latents, interpolations and stored noise.
OfficialNumbers numbers_of(CoveredFixture& reference, const OfficialLoss& loss) {
  StepOnCpu step = make(stylegan1::official_shape().net, options_of(loss));
  const std::string source = "stylegan1_16_params", pixels = std::to_string(loss.pixels);
  const TensorMap tensors = stylegan1::import_official(fixture(source), source).tensors;
  const torch::nn::Module& G = *step.player("G").player->network;
  load_into(G, tensors, source);
  load_into(*step.player("D").player->network, tensors, source, "D.");
  std::vector<at::Tensor> noise;
  for (int64_t i = 0; i < 6; ++i)
    noise.push_back(G.named_buffers()["synthesis.noise" + std::to_string(i)]);
  GivenDraws draws;
  draws.give("z", reference["in/z" + pixels]);
  draws.give("gp", reference["in/mix" + pixels].unsqueeze(1));
  draws.give_noise(noise);
  return official_numbers(step->recipe(),
                          loss,
                          reference["in/img" + pixels],
                          kStatistics,
                          stylegan1::layouts(std::nullopt));
}

}  // namespace

// What is left out is made of the scores, but for D's scores of interpolated pictures, which
// networks_test.cpp compares.
TEST_CASE("PhasesMatchTheOfficialCode") {
  CoveredFixture reference("stylegan1_16_loss");
  check_official_losses(reference,
                        {"epsilon_penalty", "loss_per_sample", "scores.mixed"},
                        [&](const OfficialLoss& loss) { return numbers_of(reference, loss); });
}

TEST_CASE("PhasesOfStyleGan1AreFunctions") {
  const at::Tensor real = torch::linspace(-1, 1, 4 * 3 * 8 * 8).reshape({4, 3, 8, 8});
  const at::Tensor labels = torch::arange(4).remainder(2);
  for (const char* loss : {"logistic", "saturating", "wgan-gp", "hinge"}) {
    StepOnCpu step = make(stylegan1::tiny_shape(16).net,
                          {{"precision.amp", "bf16"}, {"stylegan1.loss", loss}},
                          {3, 5});
    for (const double alpha : {0.3, 1.0}) {
      CAPTURE(loss, alpha);
      enter_level(step->recipe(), 8, alpha);
      check_phases_are_functions(*step, {real, labels, 0});
    }
  }
}

TEST_CASE("TheMeanOfWMovesByEachPhase") {
  StepOnCpu step = make(stylegan1::tiny_shape(16).net, {{"stylegan1.w_avg_beta", 0}});
  Recipe& recipe = step->recipe();
  const at::Tensor real = torch::zeros({4, 3, 4, 4});
  const at::Tensor average = recipe.players()[0]->network->named_buffers()["dlatent_avg"];
  for (const char* name : {"D", "G"}) {
    const Phase& phase = phase_of(recipe, name);
    const at::Tensor before = average.clone();
    const PhaseOutput out = phase.run(whole_batch(recipe, phase, {real, {}, 0}));
    CHECK(torch::equal(average, before));
    hand_back_sums(recipe, out.sums);
    CHECK_FALSE(torch::equal(average, before));
  }
}

TEST_CASE("ARecordingSeesTheConvolutionsOfEveryStage") {
  stylegan1::NetworkOptions net;
  net.fmap_base = 128;
  net.fmap_max = 8;
  StepOnCpu step = make(net, {{"precision.amp", "auto"}, {"train.kimg", 10}});
  check_recording_of_stages(*step);
}
