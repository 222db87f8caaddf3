// SPDX-License-Identifier: Apache-2.0
#include "recipes/pggan/recipe.h"

#include <catch2/catch.hpp>

#include "official.h"
#include "recipes/official_losses.h"
#include "recipes/pggan/options.h"
#include "support/given_draws.h"
#include "train/cpu_precision/cpu_precision.h"

using namespace gantrain;

namespace {

// Stages of 1000 images each, up to 16 pixels, batch 8.
std::map<std::string, Json> sized(const pggan::NetworkOptions& net,
                                  const std::map<std::string, Json>& changes) {
  std::map<std::string, Json> all = {{"data.resolution", 16},
                                     {"train.batch", 8},
                                     {"pggan.latent_size", net.latent_size},
                                     {"pggan.fmap_base", net.fmap_base},
                                     {"pggan.fmap_max", net.fmap_max},
                                     {"pggan.fused_scale", net.fused_scale},
                                     {"schedule.start", 4},
                                     {"schedule.fade_kimg", 1},
                                     {"schedule.stable_kimg", 1},
                                     {"schedule.batch", "8"},
                                     {"schedule.lr_factor", "1"}};
  for (const auto& [key, value] : changes) all[key] = value;
  return all;
}

StepOnCpu make(const pggan::NetworkOptions& net, const std::map<std::string, Json>& changes = {}) {
  return {pggan::row(), step_config(pggan::facts(), sized(net, changes))};
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
// losses_test.cpp compares.
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
  TrainOptions train;
  train.batch = 8;
  train.kimg = {10'000};
  const std::vector<TrainedSize> sizes = trained_sizes(*step, train, 1, {16, 16});
  CHECK(sizes.size() == step->recipe().schedule().stages().size());
  const ProductRecord record = record_products(*step, sizes);
  for (const int64_t side : {4, 8, 16}) {
    const Product inner{Product::Kind::kConv2d, {8, side, side}, {8, 8, 3, 3}, 1, {1, 1}};
    CAPTURE(to_text(inner));
    REQUIRE(record.count(inner) == 1);
    CHECK(record.at(inner).samples == 8);
  }
  CHECK(trained_sizes(*step, train, 1, {16, 16}, /*images_seen=*/4000).size() < sizes.size());
}
