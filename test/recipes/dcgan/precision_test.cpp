// SPDX-License-Identifier: Apache-2.0
// What DCGAN computes in when it is asked for less than float32.
#include <catch2/catch.hpp>

#include "computed_text.h"
#include "recipes/dcgan/options.h"
#include "recipes/dcgan/recipe.h"
#include "tensor_checks.h"
#include "train/mixed_precision.h"
#include "train/step.h"

using namespace gantrain;
using at::Tensor;

namespace {

Config tiny(const std::map<std::string, Json>& changes) {
  Schema schema;
  dcgan::add_keys(schema);
  Config config(schema);
  config.set("dcgan.channels", 16, "test");
  config.set("dcgan.d_channels", 4, "test");
  for (const auto& [key, value] : changes) config.set(key, value, "test");
  return config;
}

// Trains on pictures of 16 pixels, batch 8, one rank.
struct Training {
  Config config;
  std::unique_ptr<Recipe> recipe;
  std::vector<PlayerState> players;
  ForwardPrecision precision;
  std::vector<Computed> computed;
  std::map<std::string, std::vector<GradientReport>> reports;
  int64_t iterations = 0;

  explicit Training(const PrecisionOptions& options,
                    const std::map<std::string, Json>& changes = {})
      : config(tiny(changes)),
        recipe(dcgan::row().make(
            {config, 3, 16, 3, {}, at::kCPU, at::kFloat, [](const std::string&, const Tensor&) {
             }})) {
    const auto alone = Group::join({}, BackendKind::kGloo, at::kCPU, 20);
    players = make_players(*recipe, {8, 1, 8, 1}, {}, alone);
    precision = forward_precision(options, at::kCPU, players);
    guard_gradients(players, options, {}, {}, at::kCPU);
  }

  void iterate() {
    StepHooks hooks{[](const std::string&) {}, [](const std::string&, const Tensor&) {}};
    hooks.precision = &precision;
    hooks.computed = &computed;
    hooks.gradients = [this](const Player& player, const GradientReport& report) {
      reports[player.name].push_back(report);
    };
    const auto i = static_cast<double>(iterations);
    const Tensor pictures =
        torch::sin(torch::arange(8 * 3 * 16 * 16, at::kFloat) * 0.37 + i).reshape({8, 3, 16, 16});
    run_iteration(*recipe, players, {pictures, {}, 0, iterations++}, hooks);
  }

  NamedTensors weights() const {
    NamedTensors all;
    for (const PlayerState& p : players) {
      for (const auto& [name, t] : state_of(*p.player->network))
        all.emplace_back(p.player->name + "." + name, t.detach().clone());
    }
    return all;
  }
};

PrecisionOptions amp(Amp which) {
  PrecisionOptions o;
  o.amp = which;
  return o;
}

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
  for (const auto& [which, type] :
       {std::pair{Amp::kBf16, at::kBFloat16}, std::pair{Amp::kFp16, at::kHalf}}) {
    Training training(amp(which));
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
  Training training(amp(Amp::kBf16), {{"dcgan.loss", "wgan-gp"}, {"dcgan.d_norm", "none"}});
  training.iterate();
  for (const char* block : {"D.main.0", "D.main.2", "D.main.5"}) {
    const Computed penalty{block, at::kFloat, "a penalty"};
    CHECK(std::count(training.computed.begin(), training.computed.end(), penalty) == 1);
  }
  const Computed loss{"D.main.0", at::kBFloat16, ""};
  CHECK(std::count(training.computed.begin(), training.computed.end(), loss) == 1);
}

TEST_CASE("BlocksThatAreKeptInFloat32ComputeInIt") {
  PrecisionOptions options = amp(Amp::kFp16);
  options.keep_float32 = "G,D.main.2";
  Training training(options);
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
  Training training(amp(Amp::kOff));
  training.iterate();
  REQUIRE(training.computed.size() == 9);
  for (const Computed& one : training.computed) CHECK(one.type == at::kFloat);
}

TEST_CASE("WeightsStayFloat32AndStatisticsOfBatchesAreTakenInIt") {
  Training half(amp(Amp::kFp16)), full(amp(Amp::kOff));
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
  PrecisionOptions options = amp(Amp::kFp16);
  options.growth_interval = 20;
  options.initial_scale = 256;
  Training training(options);
  constexpr int64_t kSteps = 200, kBad = 50;
  for (int64_t i = 0; i < kSteps; ++i) {
    Tensor& victim = training.players[1].parameters.front().second;
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
  const std::vector<GradientReport>& D = training.reports.at("D");
  const std::vector<GradientReport>& G = training.reports.at("G");
  REQUIRE(D.size() == kSteps);
  CHECK(D.front().scale == 256);
  CHECK(D[20].scale == 512);  // after 20 good steps
  CHECK(D[kBad].scale == 1024);
  CHECK_FALSE(D[kBad].finite);
  CHECK(D[kBad + 1].scale == 512);
  CHECK(G[kBad].finite);  // the other network's scale goes its own way
  CHECK(G[kBad + 1].scale == 1024);
  CHECK(D.back().scale > 1024);
  for (const auto& [name, tensor] : training.weights()) {
    CAPTURE(name);
    CHECK(tensor.isfinite().all().item<bool>());
  }
}
