// SPDX-License-Identifier: Apache-2.0
// What DCGAN computes in when it is asked for less than float32.
#include "recipes/dcgan/options.h"
#include "recipes/dcgan/recipe.h"
#include "support/catch.h"
#include "support/computed_text.h"
#include "support/step_setup.h"
#include "support/tensor_checks.h"
#include "train/cpu_precision/cpu_precision.h"

using namespace gantrain;
using at::Tensor;

namespace {

using Changes = std::map<std::string, Json>;

Config tiny(const std::string& amp, Changes changes) {
  changes.merge(Changes{{"data.resolution", 16},
                        {"train.batch", 8},
                        {"train.seed", 3},
                        {"precision.amp", amp},
                        {"dcgan.channels", 16},
                        {"dcgan.d_channels", 4}});
  return step_config(dcgan::facts(), changes);
}

// Trains on pictures of 16 pixels, batch 8, one rank.
struct Training : StepOnCpu {
  std::vector<Computed> computed;
  std::map<std::string, std::vector<GradientVerdict>> verdicts;  // by player
  int64_t iterations = 0;

  explicit Training(const std::string& amp, const Changes& changes = {})
      : StepOnCpu(dcgan::row(), tiny(amp, changes)) {
    (**this).note_computed_into(&computed);
  }

  void iterate() {
    const auto i = static_cast<double>(iterations);
    const Tensor pictures =
        torch::sin(torch::arange(8 * 3 * 16 * 16, at::kFloat) * 0.37 + i).reshape({8, 3, 16, 16});
    for (const PhaseReport& report : run(pictures, iterations++).phases)
      verdicts[report.phase->player.name].push_back(report.verdict);
  }

  NamedTensors weights() {
    NamedTensors all;
    for (const Player* player : (**this).recipe().players()) {
      for (const auto& [name, t] : state_of(*player->network))
        all.emplace_back(player->name + "." + name, t.detach().clone());
    }
    return all;
  }
};

std::vector<Computed> sorted(std::vector<Computed> all) {
  std::sort(all.begin(), all.end(), [](const Computed& a, const Computed& b) {
    return std::tie(a.block, a.why) < std::tie(b.block, b.why);
  });
  return all;
}

const char* const kScores = "the last 4x4 block: scores";
const char* const kBatches = "statistics";

}  // namespace

TEST_CASE("EveryBlockOfDcganIsLoweredButForTheScores") {
  for (const auto& [amp, type] : {std::pair{"bf16", at::kBFloat16}, std::pair{"fp16", at::kHalf}}) {
    Training training(amp);
    training.iterate();
    CHECK(sorted(training.computed) == std::vector<Computed>{{"D.main.0", type, ""},
                                                             {"D.main.2", type, ""},
                                                             {"D.main.3", at::kFloat, kBatches},
                                                             {"D.main.5", at::kFloat, kScores},
                                                             {"G.main.0", type, ""},
                                                             {"G.main.1", at::kFloat, kBatches},
                                                             {"G.main.3", type, ""},
                                                             {"G.main.4", at::kFloat, kBatches},
                                                             {"G.main.6", type, ""}});
  }
}

TEST_CASE("GradientPenaltiesOfDcganAreTakenInFloat32") {
  Training training("bf16", {{"dcgan.loss", "wgan-gp"}, {"dcgan.d_norm", "none"}});
  training.iterate();
  for (const char* block : {"D.main.0", "D.main.2", "D.main.5"}) {
    const Computed penalty{block, at::kFloat, "a penalty"};
    CHECK(std::count(training.computed.begin(), training.computed.end(), penalty) == 1);
  }
  const Computed loss{"D.main.0", at::kBFloat16, ""};
  CHECK(std::count(training.computed.begin(), training.computed.end(), loss) == 1);
}

TEST_CASE("BlocksThatAreKeptInFloat32ComputeInIt") {
  Training training("fp16", {{"precision.keep_float32", "G,D.main.2"}});
  training.iterate();
  for (const Computed& one : training.computed) {
    CAPTURE(one.block);
    const bool kept = one.block[0] == 'G' || one.block == "D.main.2";
    CHECK(one.type == (one.block == "D.main.0" ? at::kHalf : at::kFloat));
    CHECK(one.why == (kept                      ? "precision.keep_float32"
                      : one.block == "D.main.5" ? kScores
                      : one.block == "D.main.3" ? kBatches
                                                : ""));
  }
  REQUIRE(training.computed.size() == 9);
}

TEST_CASE("Float32IsReportedAsFloat32") {
  Training training("off");
  training.iterate();
  REQUIRE(training.computed.size() == 9);
  for (const Computed& one : training.computed) CHECK(one.type == at::kFloat);
}

TEST_CASE("WeightsStayFloat32AndStatisticsOfBatchesAreTakenInIt") {
  Training half("fp16"), full("off");
  half.iterate();
  full.iterate();
  const NamedTensors a = half.weights(), b = full.weights();
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(a[i].first);
    CHECK(a[i].second.scalar_type() == b[i].second.scalar_type());
    if (a[i].first.find("running_mean") == std::string::npos) continue;
    // Of 512 numbers, each rounded to 11 bits.
    CHECK((a[i].second - b[i].second).abs().max().item<double>() < 2e-4);
  }
}

// 200 steps in which the scale grows, one gradient is infinite, and the weights stay finite.
TEST_CASE("AScaleGrowsBacksOffAndNoInfinityReachesAWeight") {
  Training training("fp16", {{"precision.growth_interval", 20}, {"precision.initial_scale", 256}});
  constexpr int64_t kSteps = 200, kBad = 50;
  for (int64_t i = 0; i < kSteps; ++i) {
    Tensor victim = training.player("D").parameters.front().second;
    if (i != kBad) {
      training.iterate();
      continue;
    }
    victim.requires_grad_(true);
    const auto hook = victim.register_hook([](const Tensor& g) { return g * INFINITY; });
    const Tensor before = victim.detach().clone();
    training.iterate();
    victim.remove_hook(hook);
    CHECK(torch::equal(victim.detach(), before));  // the step was left out
  }
  const std::vector<GradientVerdict>& D = training.verdicts.at("D");
  const std::vector<GradientVerdict>& G = training.verdicts.at("G");
  const auto scale = [](const GradientVerdict& verdict) { return verdict.scale.item<double>(); };
  REQUIRE(D.size() == kSteps);
  CHECK(scale(D.front()) == 256);
  CHECK(scale(D[20]) == 512);  // after 20 good steps
  CHECK(scale(D[kBad]) == 1024);
  CHECK(D[kBad].finite == false);
  CHECK(scale(D[kBad + 1]) == 512);
  CHECK(G[kBad].finite == true);  // the other network's scale goes its own way
  CHECK(scale(G[kBad + 1]) == 1024);
  CHECK(scale(D.back()) > 1024);
  for (const auto& [name, tensor] : training.weights()) {
    CAPTURE(name);
    CHECK(tensor.isfinite().all().item<bool>());
  }
}

TEST_CASE("ARecordingSeesEveryConvolutionThatMayBeLowered") {
  Training training("auto");
  ProductChoice seen;
  for (const auto& [product, uses] : record_products(*training, {{0, 8, 8, {16, 16}}})) {
    seen[product] = false;
    CHECK(uses.samples == 8);
    CHECK(uses.weight_gradient > 0);
  }
  CHECK((seen == *choice_from("conv_transpose2d 100x1x1 100x16x4x4 = float32, "
                              "conv_transpose2d 16x4x4 16x8x4x4 s2 p1x1 = float32, "
                              "conv_transpose2d 8x8x8 8x3x4x4 s2 p1x1 = float32, "
                              "conv2d 3x16x16 4x3x4x4 s2 p1x1 = float32, "
                              "conv2d 4x8x8 8x4x4x4 s2 p1x1 = float32")));
}
