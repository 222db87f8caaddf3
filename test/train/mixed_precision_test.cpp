// SPDX-License-Identifier: Apache-2.0
#include "train/mixed_precision.h"

#include <ATen/autocast_mode.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "spawn_ranks.h"
#include "temporary_folder.h"
#include "tensor_checks.h"
#include "toy_recipe.h"
#include "train/step.h"
#include "util/error.h"

using namespace gantrain;
using at::Tensor;

namespace {

constexpr int64_t kIterations = 24, kBatch = 8, kInterval = 3;
constexpr double kScale = 1 << 20;  // overflows at first

struct Parts {  // micro-batches of a step
  int64_t G, D;
};

// Heusel et al. 2017's two time scales, as MMagic's SAGAN has them.
Config two_time_scales(const Parts& parts) {
  std::map<std::string, Json> values;
  for (const std::string player : {"G", "D"}) {
    values[player + ".optimizer"] = "adam";
    values[player + ".adam.lr"] = player == "G" ? 1e-4 : 4e-4;
    values[player + ".adam.beta1"] = 0;
    values[player + ".adam.beta2"] = 0.999;
    values[player + ".adam.eps"] = 1e-6;
    values[player + ".accumulate"] = player == "G" ? parts.G : parts.D;
  }
  return toy_config(values);
}

// A recipe keeps a reference to its configuration.
struct Made {
  Config config;
  std::unique_ptr<Recipe> recipe;
  explicit Made(const Parts& parts)
      : config(two_time_scales(parts)),
        recipe(toy_row().make(
            {config, 0, 8, 3, {}, at::kCPU, at::kFloat, [](const std::string&, const Tensor&) {
             }})) {}
};

PrecisionOptions half() {
  PrecisionOptions o;
  o.amp = Amp::kFp16;
  o.initial_scale = kScale;
  o.growth_interval = kInterval;
  return o;
}

struct Trained {
  NamedTensors weights;
  std::map<std::string, std::vector<double>> scales;  // of each player's steps
  int64_t skipped = 0;
};

void keep_weights(Recipe& recipe, NamedTensors& weights) {
  for (Player* player : recipe.players()) {
    for (const auto& item : player->network->named_parameters())
      weights.emplace_back(player->name + "." + item.key(), item.value().detach().clone());
  }
}

constexpr Parts kParts{4, 8};

Trained by_the_loop(const PrecisionOptions& options, const Parts& parts, const Rendezvous& r = {}) {
  const Made made(parts);
  const auto& recipe = made.recipe;
  const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
  TrainOptions train;
  train.batch = kBatch;
  std::vector<PlayerState> players = make_players(*recipe, plan_batch(train, r.world), {}, group);
  const ForwardPrecision precision = forward_precision(options, at::kCPU, players);
  guard_gradients(players, options, train, {}, at::kCPU);
  Trained result;
  StepHooks hooks{[](const std::string&) {}, [](const std::string&, const Tensor&) {}};
  hooks.precision = &precision;
  hooks.gradients = [&](const Player& player, const GradientReport& report) {
    result.scales[player.name].push_back(report.scale.value_or(1));
    if (!report.finite) ++result.skipped;
  };
  for (int64_t i = 0; i < kIterations; ++i) {
    const Tensor mine =
        toy_pictures(kBatch, i).slice(0, r.rank, std::nullopt, r.world).contiguous();
    run_iteration(*recipe, players, {mine, {}, r.rank, i}, hooks);
  }
  keep_weights(*recipe, result.weights);
  return result;
}

// One network's side of the same, written out.
struct Side {
  std::vector<Tensor> parameters, m, v;
  double scale = kScale, lr = 0;
  int64_t good = 0, steps = 0, parts = 1;

  bool step() {
    bool finite = true;
    std::vector<Tensor> gradients;
    for (const Tensor& p : parameters) {
      gradients.push_back(p.grad() / scale);
      finite = finite && gradients.back().isfinite().all().item<bool>();
      p.mutable_grad() = Tensor();
    }
    good = finite ? good + 1 : 0;
    if (!finite) scale /= 2;
    if (good == kInterval) {
      scale *= 2;
      good = 0;
    }
    if (!finite) return false;
    ++steps;
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters.size(); ++i) {
      m[i] = gradients[i];  // beta1 = 0
      v[i] = 0.999 * v[i] + 0.001 * gradients[i].square();
      const double correction = 1 - std::pow(0.999, static_cast<double>(steps));
      parameters[i].sub_(lr * m[i] / ((v[i] / correction).sqrt() + 1e-6));
    }
    return true;
  }
};

Tensor under_autocast(const std::function<Tensor()>& loss) {
  at::autocast::set_autocast_dtype(at::kCPU, at::kHalf);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const Tensor result = loss();
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  return result;
}

Trained by_hand() {
  const Made made(kParts);
  const auto& recipe = made.recipe;
  Trained result;
  std::map<std::string, Side> sides;
  for (Player* player : recipe->players()) {
    Side& side = sides[player->name];
    side.lr = player->name == "G" ? 1e-4 : 4e-4;
    side.parts = player->name == "G" ? kParts.G : kParts.D;
    side.parameters = player->network->parameters();
    for (const Tensor& p : side.parameters) {
      side.m.push_back(torch::zeros_like(p));
      side.v.push_back(torch::zeros_like(p));
    }
  }
  for (int64_t i = 0; i < kIterations; ++i) {
    for (Phase& phase : recipe->phases()) {
      if (i % phase.interval != 0) continue;
      Side& side = sides.at(phase.player.name);
      for (auto& [name, other] : sides) {
        for (Tensor& p : other.parameters) p.requires_grad_(&other == &side);
      }
      for (int64_t k = 0; k < side.parts; ++k) {
        Batch part;
        part.real = toy_pictures(kBatch, i).slice(0, k, std::nullopt, side.parts).contiguous();
        part.samples = {k, side.parts, kBatch / side.parts};
        part.iteration = i;
        const Tensor loss = under_autocast([&] { return phase.loss(part); });
        ((loss / side.parts).to(at::kFloat) * side.scale).backward();
      }
      result.scales[phase.player.name].push_back(side.scale);
      if (!side.step()) ++result.skipped;
    }
  }
  keep_weights(*recipe, result.weights);
  return result;
}

std::vector<PlayerState> toy_players(Recipe& recipe) {
  return make_players(recipe, {8, 1, 8, 1}, {}, Group::join({}, BackendKind::kGloo, at::kCPU, 20));
}

}  // namespace

TEST_CASE("TwoTimeScalesAccumulationAndADynamicScaleAreTheHandWrittenLoops") {
  const Trained loop = by_the_loop(half(), kParts), hand = by_hand();
  CHECK(loop.scales == hand.scales);
  CHECK(loop.skipped == hand.skipped);
  CHECK(loop.skipped > 2);
  const std::vector<double>& D = loop.scales.at("D");
  CHECK(std::adjacent_find(D.begin(), D.end(), std::less<>()) != D.end());  // it grew
  CHECK(loop.scales.at("G") != D);                                          // each its own
  for (size_t i = 0; i < hand.weights.size(); ++i) {
    CAPTURE(hand.weights[i].first);
    CHECK(torch::allclose(loop.weights[i].second, hand.weights[i].second, 1e-5, 1e-6));
  }
}

// As long as no gradient leaves float16's range: a rank's own are twice those of half the loss.
TEST_CASE("TwoRanksAreTwoAccumulatedMicroBatchesUnderAmpBitForBit") {
  for (const Amp amp : {Amp::kBf16, Amp::kFp16}) {
    const TemporaryFolder folder;
    PrecisionOptions options;
    options.amp = amp;
    options.initial_scale = 1024;
    for (const int64_t world : {1, 2}) {
      REQUIRE(failed_ranks(world, [&](const Rendezvous& r) {
                const int64_t parts = 2 / r.world;
                const Trained trained = by_the_loop(options, {parts, parts}, r);
                if (r.rank == 0)
                  save_safetensors(folder / std::to_string(r.world), trained.weights, {});
                return static_cast<int>(trained.skipped);
              }) == 0);
    }
    const auto one = load_safetensors(folder / "1").tensors;
    const auto two = load_safetensors(folder / "2").tensors;
    for (const auto& [name, tensor] : one) {
      CAPTURE(name, static_cast<int>(amp));
      CHECK(torch::equal(two.at(name), tensor));
    }
  }
}

TEST_CASE("BlocksThatStayInFloat32MustExist") {
  const Made made({1, 1});
  const std::vector<PlayerState> players = toy_players(*made.recipe);
  PrecisionOptions options;
  options.keep_float32 = "G, D";
  CHECK(forward_precision(options, at::kCPU, players).keep_float32 ==
        std::vector<std::string>{"G", "D"});
  options.keep_float32 = "G,E";
  CHECK_THROWS_WITH(forward_precision(options, at::kCPU, players),
                    Catch::Contains("E is no network or block"));
}

TEST_CASE("ForwardPassesAreLoweredByAutocastAlone") {
  const Made made({1, 1});
  const std::vector<PlayerState> players = toy_players(*made.recipe);
  PrecisionOptions options;
  const auto lowered = [&] { return forward_precision(options, at::kCPU, players).autocast_type; };
  CHECK_FALSE(lowered());
  options.amp = Amp::kAuto;
  CHECK(lowered() == at::kBFloat16);
  CHECK(forward_precision(options, at::Device(at::kCUDA, 0), players).autocast_type == at::kHalf);
  options.mode = PrecisionMode::kBlocks;
  CHECK_FALSE(lowered());
}

TEST_CASE("OnlyFloat16IsScaledAndBlocksAreNotUnlessAsked") {
  const Made made({1, 1});
  std::vector<PlayerState> players = toy_players(*made.recipe);
  const auto scale = [&](const PrecisionOptions& options) {
    guard_gradients(players, options, {}, {}, at::kCPU);
    return players[0].guard->scaled(torch::ones({})).item<double>();
  };
  PrecisionOptions o;
  CHECK(scale(o) == 1);
  o.amp = Amp::kBf16;
  CHECK(scale(o) == 1);
  o.amp = Amp::kFp16;
  CHECK(scale(o) == 65536);
  o.mode = PrecisionMode::kBlocks;
  CHECK(scale(o) == 1);
  o.loss_scale = {LossScale::Kind::kFixed, 512};
  CHECK(scale(o) == 512);
  CHECK(players[0].guard != players[1].guard);
}
